package pyspark.pravega.internals;

import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.types.StructType;

/** The columns of a streaming read, which Spark names since 4.2. */
public final class StreamedColumns {
  private StreamedColumns() {}

  /** Those that Spark has asked for. */
  public static StructType of(Table table, StructType columns) {
    return columns;
  }
}
