package pyspark.pravega.internals;

import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;

/** A partition that knows, on the driver, which scan it is of: an RDD of rows then tells what it has read. */
public final class ScannedPartition extends PythonInputPartition {
  private static final long serialVersionUID = 1;

  private final transient Scan scan;

  public ScannedPartition(int index, byte[] pickled, Scan scan) {
    super(index, pickled);
    this.scan = scan;
  }

  /** Null where the partition is read. */
  Scan scan() {
    return scan;
  }
}
