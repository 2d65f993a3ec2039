package pyspark.pravega;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What the catalog process knows about a stream, as a table: {@code orders$commits} and its like. */
final class RowsTable implements SupportsRead {
  private final CatalogProcess process;
  private final String catalog;
  private final Identifier identifier;
  private final StructType schema;

  RowsTable(CatalogProcess process, String catalog, Identifier identifier, JsonNode loaded) {
    this.process = process;
    this.catalog = catalog;
    this.identifier = identifier;
    schema = PravegaCatalog.struct(loaded.get("schema"));
  }

  @Override
  public String name() {
    return catalog + "." + identifier;
  }

  @Override
  @SuppressWarnings("deprecation")
  public StructType schema() {
    return schema;
  }

  @Override
  public Map<String, String> properties() {
    return Map.of("provider", "pravega");
  }

  @Override
  public Set<TableCapability> capabilities() {
    return EnumSet.of(TableCapability.BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new Builder();
  }

  private final class Builder implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownV2Filters {
    private StructType wanted = schema;
    private Predicate[] predicates = new Predicate[0];

    @Override
    public void pruneColumns(StructType required) {
      wanted = required;
    }

    @Override
    public Predicate[] pushPredicates(Predicate[] given) {
      predicates = given;
      // They only spare questions: Spark looks at each row again.
      return given;
    }

    @Override
    public Predicate[] pushedPredicates() {
      return new Predicate[0];
    }

    @Override
    public Scan build() {
      JsonNode rows =
          process.callAgain(
              "metadataRows",
              "namespace", identifier.namespace(),
              "table", identifier.name(),
              "columns", wanted.fieldNames(),
              "predicates", Predicates.of(predicates));
      return new Rows(wanted, rows);
    }
  }
}
