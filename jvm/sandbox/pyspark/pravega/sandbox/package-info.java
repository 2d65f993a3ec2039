/** What runs the servers of a sandbox that keeps its data. It lies in a jar of its own, and knows nothing of Spark. */
package pyspark.pravega.sandbox;
