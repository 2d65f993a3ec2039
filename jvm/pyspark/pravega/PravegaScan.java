package pyspark.pravega;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import java.util.Base64;
import java.util.Map;
import java.util.OptionalLong;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/**
 * A read. As a batch it is planned by the catalog process when Spark first asks about it, while it plans the query: its
 * ends are fixed from then on. As a stream each micro-batch is planned by {@link PravegaMicroBatchStream}.
 */
final class PravegaScan implements Scan, Batch, SupportsReportStatistics {
  private static final boolean COLUMNAR = ColumnarReaderFactory.available();

  private final PravegaTable table;
  private final StructType readSchema;
  private final Map<String, String> options;
  private final boolean limited;
  private final Supplier<JsonNode> planner;
  private JsonNode plan;
  private PravegaMicroBatchStream stream;

  private PravegaScan(
      PravegaTable table,
      StructType readSchema,
      Map<String, String> options,
      boolean limited,
      Supplier<JsonNode> planner) {
    this.table = table;
    this.readSchema = readSchema;
    this.options = options;
    this.limited = limited;
    this.planner = planner;
  }

  @Override
  public StructType readSchema() {
    return readSchema;
  }

  @Override
  public synchronized String description() {
    String name = "Pravega " + table.name();
    // Spark asks also where nothing is read.
    if (plan == null) {
      return name;
    }
    return name + " [" + plan.get("segments").asInt() + " segments with events, " + size() + " bytes]";
  }

  @Override
  public Batch toBatch() {
    plan();
    return this;
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    stream = new PravegaMicroBatchStream(table, readSchema, options);
    return stream;
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return stream == null ? new CustomMetric[0] : LagMetric.all();
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return stream == null ? new CustomTaskMetric[0] : LagMetric.values(stream.lag());
  }

  @Override
  public InputPartition[] planInputPartitions() {
    JsonNode planned = plan().get("partitions");
    InputPartition[] partitions = new InputPartition[planned.size()];
    for (int i = 0; i < partitions.length; i++) {
      partitions[i] = new PythonInputPartition(i, Base64.getDecoder().decode(planned.get(i).asText()));
    }
    return partitions;
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    if (stream == null) {
      // Spark asks this while it plans a query: from here on its ends are fixed.
      plan();
    }
    return COLUMNAR ? ColumnarSupportMode.SUPPORTED : ColumnarSupportMode.UNSUPPORTED;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return readerFactory(
        table.process.python(),
        Base64.getDecoder().decode(plan().get("function").asText()),
        readSchema,
        (StructType) DataType.fromJson(plan().get("schema").asText()),
        limited);
  }

  @Override
  public Statistics estimateStatistics() {
    if (stream != null) {
      // How much a micro-batch will have isn't known; what the whole stream has doesn't tell it.
      return new Size(OptionalLong.empty(), OptionalLong.empty());
    }
    JsonNode rows = plan().get("rows");
    return new Size(OptionalLong.of(size()), rows.isNull() ? OptionalLong.empty() : OptionalLong.of(rows.asLong()));
  }

  private record Size(OptionalLong sizeInBytes, OptionalLong numRows) implements Statistics {}

  /**
   * Reads what a pickled function gives: columnar where this Spark can do it.
   *
   * @param endsSoon whether it ends by itself right behind what the query takes of it
   */
  static PartitionReaderFactory readerFactory(
      UserDefinedPythonDataSource python,
      byte[] function,
      StructType readSchema,
      StructType batchSchema,
      boolean endsSoon) {
    if (COLUMNAR) {
      return new ColumnarReaderFactory(python, function, readSchema.size(), endsSoon);
    }
    return new PythonPartitionReaderFactory(python, function, batchSchema, Option.empty(), Option.empty());
  }

  private synchronized JsonNode plan() {
    if (plan == null) {
      plan = planner.get();
    }
    return plan;
  }

  private long size() {
    return plan().get("size").asLong();
  }

  /** The answer to {@code count(*)}, where the commit log has it: nothing is read. */
  private record Counted(String table, long count, int times) implements LocalScan {
    @Override
    public StructType readSchema() {
      StructType schema = new StructType();
      for (int i = 0; i < times; i++) {
        schema = schema.add("count_" + i, DataTypes.LongType, false);
      }
      return schema;
    }

    @Override
    public InternalRow[] rows() {
      Object[] values = new Object[times];
      Arrays.fill(values, count);
      return new InternalRow[] {new GenericInternalRow(values)};
    }

    @Override
    public String description() {
      return "Pravega " + table + " [rows as the commit log has counted them]";
    }
  }

  /** Takes what Spark pushes down. */
  static final class Builder
      implements ScanBuilder,
          SupportsPushDownRequiredColumns,
          SupportsPushDownV2Filters,
          SupportsPushDownAggregates,
          SupportsPushDownLimit {
    private final PravegaTable table;
    private final CaseInsensitiveStringMap options;
    private StructType wanted;
    private Predicate[] predicates = new Predicate[0];
    private Integer limit;
    private JsonNode rows;
    private Counted counted;

    Builder(PravegaTable table, CaseInsensitiveStringMap options) {
      this.table = table;
      this.options = options;
      this.wanted = table.allFields();
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
      if (rows == null) {
        // Spark asks twice where the answer is no.
        rows =
            table.process.callAgain(
                "countRows",
                "namespace", table.identifier.namespace(),
                "table", table.identifier.name(),
                "options", options.asCaseSensitiveMap());
      }
      counted = rows.isNull() ? null : new Counted(table.name(), rows.asLong(), functions.length);
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
      return new PravegaScan(
          table,
          wanted,
          given,
          limit != null,
          () ->
              table.process.callAgain(
                  "planScan",
                  "namespace", table.identifier.namespace(),
                  "table", table.identifier.name(),
                  "columns", wanted.fieldNames(),
                  "options", given,
                  "position", table.position(),
                  "predicates", Predicates.of(predicates),
                  "limit", limit));
    }
  }
}
