/** The catalog's tables, views, changes and procedures, as Spark asks for them. */
package pyspark.pravega.catalog;
