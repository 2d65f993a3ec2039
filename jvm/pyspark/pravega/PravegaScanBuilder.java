package pyspark.pravega;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Takes what Spark pushes down. */
final class PravegaScanBuilder
    implements ScanBuilder,
        SupportsPushDownRequiredColumns,
        SupportsPushDownV2Filters,
        SupportsPushDownAggregates,
        SupportsPushDownLimit {
  private final PravegaTable table;
  private final CaseInsensitiveStringMap options;
  private final Moments moments = Moments.ofQuery();
  private StructType wanted;
  private Predicate[] predicates = new Predicate[0];
  private Integer limit;
  private JsonNode known;
  private CountedScan counted;
  private boolean filteredAtRuntime = true;

  PravegaScanBuilder(PravegaTable table, CaseInsensitiveStringMap options) {
    this.table = table;
    this.options = options;
    this.wanted = table.allFields();
  }

  /** Its scan takes no predicates that are only known when the query runs. */
  PravegaScanBuilder withoutRuntimeFilters() {
    filteredAtRuntime = false;
    return this;
  }

  @Override
  public void pruneColumns(StructType required) {
    wanted = table.fields(required);
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] given) {
    predicates = given;
    // They only narrow what is read: Spark looks at each row again.
    return given;
  }

  @Override
  public Predicate[] pushedPredicates() {
    return new Predicate[0];
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
        || !Arrays.stream(functions).allMatch(CountStar.class::isInstance)
        || table.position() != null) {
      return false;
    }
    if (known == null) {
      // Spark asks twice where the answer is no.
      known =
          moments.ask(
              table.stream(),
              said ->
                  table.process.callAgain(
                      "countRows",
                      "namespace", table.identifier.namespace(),
                      "table", table.identifier.name(),
                      "options", options.asCaseSensitiveMap(),
                      "schema", table.allFields().json(),
                      "moments", said));
    }
    counted =
        known.get("rows").isNull()
            ? null
            : new CountedScan(
                table,
                options.asCaseSensitiveMap(),
                known.get("rows").asLong(),
                known.get("seen").asText(),
                functions.length);
    return counted != null;
  }

  @Override
  public boolean pushLimit(int rows) {
    limit = rows;
    return true;
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
