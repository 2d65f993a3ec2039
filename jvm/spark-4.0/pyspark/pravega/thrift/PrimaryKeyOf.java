package pyspark.pravega.thrift;

import java.util.List;
import org.apache.spark.sql.connector.catalog.Table;
import pyspark.pravega.catalog.PravegaTable;

/**
 * A table's primary key: before 4.1 Spark knows of none.
 *
 * @param columns their names
 */
record PrimaryKeyOf(String name, List<String> columns) {
  /** Null where there is none. */
  static PrimaryKeyOf of(Table table, String name) {
    return table instanceof PravegaTable known && !known.primaryKey().isEmpty()
        ? new PrimaryKeyOf(name + "_pk", known.primaryKey())
        : null;
  }
}
