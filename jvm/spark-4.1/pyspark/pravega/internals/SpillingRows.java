package pyspark.pravega.internals;

import org.apache.spark.sql.execution.ExternalAppendOnlyUnsafeRowArray;

/** Spark's array of rows, which spills to disk; since 4.1 also by their bytes. */
public final class SpillingRows extends ExternalAppendOnlyUnsafeRowArray {
  public SpillingRows(int rowsInMemory, long bytesInMemory) {
    super(rowsInMemory, bytesInMemory, Integer.MAX_VALUE, Long.MAX_VALUE);
  }
}
