/** Spark's Thrift server, with what JDBC's metadata calls answer taken from all catalogs. */
package pyspark.pravega.thrift;
