/** The catalog process: what it is asked, what it answers, its errors as Spark's. */
package pyspark.pravega.bridge;
