package pyspark.pravega.read;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import pyspark.pravega.catalog.PravegaTable;

/** Takes what Spark pushes down. */
public final class PravegaScanBuilder extends Narrowing implements SupportsPushDownAggregates {
  private final PravegaTable table;
  private final CaseInsensitiveStringMap options;
  private JsonNode known;
  private CountedScan counted;
  private boolean filteredAtRuntime = true;

  public PravegaScanBuilder(PravegaTable table, CaseInsensitiveStringMap options) {
    super(table.allFields());
    this.table = table;
    this.options = options;
  }

  /** Its scan takes no predicates that are only known when the query runs. */
  public PravegaScanBuilder withoutRuntimeFilters() {
    filteredAtRuntime = false;
    return this;
  }

  @Override
  public void pruneColumns(StructType required) {
    wanted = table.fields(required);
  }

  @Override
  public boolean supportCompletePushDown(Aggregation aggregation) {
    return pushAggregation(aggregation);
  }

  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    AggregateFunc[] functions = aggregation.aggregateExpressions();
    if (aggregation.groupByExpressions().length > 0
        || functions.length == 0
        || !Arrays.stream(functions).allMatch(CountStar.class::isInstance)) {
      return false;
    }
    if (known == null) {
      // Spark asks twice where the answer is no.
      known =
          moments.ask(
              table,
              (said, beside) ->
                  table.process.callAgain(
                      "countRows",
                      "namespace", table.identifier.namespace(),
                      "table", table.identifier.name(),
                      "options", options.asCaseSensitiveMap(),
                      "schema", table.allFields().json(),
                      "moments", said,
                      "beside", beside,
                      "position", table.position(),
                      "transaction", table.transaction.id()));
    }
    counted =
        known.get("rows").isNull()
            ? null
            : new CountedScan(
                table,
                options.asCaseSensitiveMap(),
                known.get("rows").asLong(),
                known.get("seen").asText(null),
                functions.length,
                table.transaction.id());
    return counted != null;
  }

  @Override
  public Scan build() {
    if (counted != null) {
      return counted;
    }
    Map<String, String> given = options.asCaseSensitiveMap();
    PravegaBatch.Read read = new PravegaBatch.Read(moments, table, wanted, given, List.of(predicates), limit);
    return new PravegaScan(table, wanted, given, filteredAtRuntime, new PravegaBatch(read));
  }
}
