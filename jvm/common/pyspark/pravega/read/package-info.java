/** Scans of tables, batches and streams, and the Arrow batches that workers give. */
package pyspark.pravega.read;
