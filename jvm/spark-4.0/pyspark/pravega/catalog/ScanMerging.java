package pyspark.pravega.catalog;

import java.util.EnumSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.TableCapability;

/** Whether Spark may make one read of two that want other columns of a table: before 4.3 it makes none. */
final class ScanMerging {
  private ScanMerging() {}

  /** What a table says of it. */
  static Set<TableCapability> capability() {
    return EnumSet.noneOf(TableCapability.class);
  }
}
