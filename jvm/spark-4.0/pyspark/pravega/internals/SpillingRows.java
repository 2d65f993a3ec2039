package pyspark.pravega.internals;

import org.apache.spark.sql.execution.ExternalAppendOnlyUnsafeRowArray;

/** Spark's array of rows, which spills to disk; before 4.1 by their number. */
public final class SpillingRows extends ExternalAppendOnlyUnsafeRowArray {
  public SpillingRows(int rowsInMemory, long bytesInMemory) {
    super(rowsInMemory, Integer.MAX_VALUE);
  }
}
