package pyspark.pravega.thrift;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Table;

/**
 * What clients may ask of a table or view.
 *
 * @param table the table; null for a view
 */
record Described(Column[] columns, Map<String, String> properties, Table table) {
  static Described of(Table table) {
    return new Described(table.columns(), table.properties(), table);
  }
}
