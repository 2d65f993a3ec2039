/** The part of pyspark-pravega that Spark loads as JVM classes; every decision is made in Python. */
package pyspark.pravega;
