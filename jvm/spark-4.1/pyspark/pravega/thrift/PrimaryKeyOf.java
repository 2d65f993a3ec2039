package pyspark.pravega.thrift;

import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.catalog.constraints.PrimaryKey;

/**
 * A table's primary key, which Spark knows of since 4.1.
 *
 * @param columns their names
 */
record PrimaryKeyOf(String name, List<String> columns) {
  /** Null where there is none. */
  static PrimaryKeyOf of(Table table, String name) {
    for (Constraint constraint : table.constraints()) {
      if (constraint instanceof PrimaryKey key) {
        return new PrimaryKeyOf(
            key.name(), Arrays.stream(key.columns()).map(column -> String.join(".", column.fieldNames())).toList());
      }
    }
    return null;
  }
}
