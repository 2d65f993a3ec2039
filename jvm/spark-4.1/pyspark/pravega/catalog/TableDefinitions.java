package pyspark.pravega.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.TableSummary;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;

/** How Spark says what a new table is to be, and asks for lists of them, since 4.1. */
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
    return EnumSet.of(
        TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE, TableCatalogCapability.SUPPORT_TABLE_CONSTRAINT);
  }

  private JsonNode define(Identifier table, String method, TableInfo info, Object... parameters) {
    return define(
        table,
        method,
        info.schema(),
        info.partitions(),
        Constraints.withKey(info.properties(), info.constraints()),
        Constraints.describe(info.constraints()),
        parameters);
  }

  @Override
  public TableSummary[] listTableSummaries(String[] namespace) throws NoSuchNamespaceException {
    // Spark's own way would load each table.
    List<TableSummary> summaries = new ArrayList<>();
    for (Identifier table : listTables(namespace)) {
      summaries.add(TableSummary.of(table, TableSummary.MANAGED_TABLE_TYPE));
    }
    return summaries.toArray(new TableSummary[0]);
  }

  @Override
  public Table createTable(Identifier table, TableInfo info) {
    return table(table, define(table, "createTable", info));
  }

  @Override
  public StagedTable stageCreate(Identifier table, TableInfo info) {
    return staged(table, define(table, "stageTable", info, "create", true, "replace", false));
  }

  @Override
  public StagedTable stageReplace(Identifier table, TableInfo info) {
    return staged(table, define(table, "stageTable", info, "create", false, "replace", true));
  }

  @Override
  public StagedTable stageCreateOrReplace(Identifier table, TableInfo info) {
    return staged(table, define(table, "stageTable", info, "create", true, "replace", true));
  }
}
