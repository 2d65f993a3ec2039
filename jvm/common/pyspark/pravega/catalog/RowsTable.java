package pyspark.pravega.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownTopN;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import pyspark.pravega.bridge.Answers;
import pyspark.pravega.bridge.CatalogProcess;
import pyspark.pravega.read.Narrowing;
import pyspark.pravega.read.Predicates;

/** What the catalog process knows about a stream, as a table: {@code orders$commits} and its like. */
public final class RowsTable implements SupportsRead {
  /** Columns of {@code $commits} that ascend in the order in which it is read. */
  private static final Set<String> ORDERED = Set.of("version", "committed_at");

  private final CatalogProcess process;
  private final String catalog;
  private final Identifier identifier;
  private final String stream;
  private final StructType schema;

  public RowsTable(CatalogProcess process, String catalog, Identifier identifier, JsonNode loaded) {
    this.process = process;
    this.catalog = catalog;
    this.identifier = identifier;
    stream = loaded.get("stream").asText();
    schema = Answers.struct(loaded.get("schema"));
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

  private final class Builder extends Narrowing implements SupportsPushDownTopN {
    private boolean newestFirst;

    private Builder() {
      super(schema);
    }

    @Override
    public boolean pushTopN(SortOrder[] orders, int rows) {
      // Versions and their times ascend together. Spark sorts the rows again.
      if (orders.length != 1
          || !(orders[0].expression() instanceof NamedReference column)
          || !ORDERED.contains(String.join(".", column.fieldNames()))) {
        return false;
      }
      limit = rows;
      newestFirst = orders[0].direction() == SortDirection.DESCENDING;
      return true;
    }

    @Override
    public boolean isPartiallyPushed() {
      return true;
    }

    @Override
    public Scan build() {
      Rows rows = new Rows(wanted);
      long page = 0;
      do {
        JsonNode answer = page(page, limit == null ? null : limit - rows.size());
        rows.add(answer.get("rows"));
        page = answer.get("next").asLong();
      } while (page != 0);
      return rows;
    }

    private JsonNode page(long page, Integer most) {
      return moments.ask(
          stream,
          known ->
              process.callAgain(
                  "metadataRows",
                  "namespace", identifier.namespace(),
                  "table", identifier.name(),
                  "columns", wanted.fieldNames(),
                  "predicates", Predicates.of(predicates),
                  "limit", most,
                  "newestFirst", newestFirst,
                  "page", page,
                  "moments", known));
    }
  }
}
