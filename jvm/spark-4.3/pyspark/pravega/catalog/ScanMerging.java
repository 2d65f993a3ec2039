package pyspark.pravega.catalog;

import java.util.EnumSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.TableCapability;

/**
 * Whether Spark may make one read of two that want other columns of a table, as scalar subqueries do: since 4.3. It asks
 * for the scan anew then, with the columns and the predicates of both. All reads of a query are of one moment, so this
 * one, too.
 */
final class ScanMerging {
  private ScanMerging() {}

  /** What a table says of it. */
  static Set<TableCapability> capability() {
    return EnumSet.of(TableCapability.SCAN_MERGING);
  }
}
