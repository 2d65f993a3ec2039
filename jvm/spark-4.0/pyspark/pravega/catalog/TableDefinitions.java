package pyspark.pravega.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;

/** How Spark 4.0 says what a new table is to be: it has no words for constraints. */
abstract class TableDefinitions implements StagingTableCatalog {
  public abstract JsonNode define(
      Identifier table,
      String method,
      StructType schema,
      Transform[] partitions,
      Map<String, String> properties,
      List<Map<String, Object>> checks,
      Object... parameters);

  public abstract Table table(Identifier table, JsonNode loaded);

  public abstract StagedTable staged(Identifier table, JsonNode loaded);

  @Override
  public Set<TableCatalogCapability> capabilities() {
    return EnumSet.of(TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE);
  }

  private JsonNode define(
      Identifier table,
      String method,
      Column[] columns,
      Transform[] partitions,
      Map<String, String> properties,
      Object... parameters) {
    StructType schema = CatalogV2Util.v2ColumnsToStructType(columns);
    return define(table, method, schema, partitions, properties, List.of(), parameters);
  }

  @Override
  public Table createTable(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    return table(table, define(table, "createTable", columns, partitions, properties));
  }

  @Override
  public StagedTable stageCreate(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    return staged(
        table, define(table, "stageTable", columns, partitions, properties, "create", true, "replace", false));
  }

  @Override
  public StagedTable stageReplace(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    return staged(
        table, define(table, "stageTable", columns, partitions, properties, "create", false, "replace", true));
  }

  @Override
  public StagedTable stageCreateOrReplace(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    return staged(
        table, define(table, "stageTable", columns, partitions, properties, "create", true, "replace", true));
  }
}
