package pyspark.pravega.read;

import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;

/** A stream that can be read in real time, since 4.1. */
interface RealTimeStream extends SupportsRealTimeMode {}
