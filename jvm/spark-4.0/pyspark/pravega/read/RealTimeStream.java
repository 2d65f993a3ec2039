package pyspark.pravega.read;

/** A stream that can be read in real time: Spark asks for none before 4.1. */
interface RealTimeStream {}
