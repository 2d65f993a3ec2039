/** Writes to tables: what tasks do with rows, and what is told when they have ended. */
package pyspark.pravega.write;
