/** What leans on Spark's internals; {@link pyspark.pravega.internals.SelfCheck} looks at it by name. */
package pyspark.pravega.internals;
