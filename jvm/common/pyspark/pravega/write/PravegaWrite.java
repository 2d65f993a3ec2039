package pyspark.pravega.write;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.types.StructType;
import pyspark.pravega.PravegaException;
import pyspark.pravega.bridge.CatalogProcess;
import pyspark.pravega.bridge.MetricSources;
import pyspark.pravega.bridge.Names;
import pyspark.pravega.bridge.Unchecked;
import pyspark.pravega.catalog.PravegaTable;
import pyspark.pravega.internals.PromptRunner;
import pyspark.pravega.internals.PythonTasks;
import pyspark.pravega.internals.RunningQuery;
import pyspark.pravega.read.ColumnarReaderFactory;
import pyspark.pravega.read.SeenTable;

/** An append: tasks run Spark's Python writer, begin and end are the catalog process's. */
public final class PravegaWrite implements RequiresDistributionAndOrdering, BatchWrite {
  private final PravegaTable table;
  private final LogicalWriteInfo info;
  private final JsonNode plan;
  private final Kind kind;
  private final StructType rows;
  private final String transaction;
  private String writer;
  private String job;
  private Set<Scan> scans = Set.of();
  private CustomTaskMetric[] metrics = new CustomTaskMetric[0];

  /** What becomes of the rows that are there. */
  private enum Kind {
    APPEND,
    OVERWRITE,
    CHANGE
  }

  private PravegaWrite(PravegaTable table, LogicalWriteInfo info, JsonNode plan, Kind kind, StructType rows) {
    this.table = table;
    this.info = info;
    this.plan = plan;
    this.kind = kind;
    this.rows = rows;
    transaction = transaction(table, info);
  }

  /** The transaction that a write is in; null for none. A streaming query is in none. */
  private static String transaction(PravegaTable table, LogicalWriteInfo info) {
    return isQuery(info) ? null : table.transaction.id();
  }

  /**
   * A write that changes rows.
   *
   * @param rows the columns of what tasks are given
   */
  static PravegaWrite ofChanges(PravegaTable table, LogicalWriteInfo info, StructType rows) {
    JsonNode plan = plan(table, info, null, table.enforced(), null);
    return new PravegaWrite(table, info, plan, Kind.CHANGE, rows);
  }

  @Override
  public String description() {
    return "Pravega " + table.name();
  }

  @Override
  public Distribution requiredDistribution() {
    List<Expression> columns = new ArrayList<>();
    plan.get("clusterBy").forEach(name -> columns.add(column(name.asText())));
    return columns.isEmpty() ? Distributions.unspecified() : Distributions.clustered(columns.toArray(new Expression[0]));
  }

  @Override
  public SortOrder[] requiredOrdering() {
    if (plan.get("clusterBy").isEmpty() || plan.get("orderBy").isNull()) {
      return new SortOrder[0];
    }
    return new SortOrder[] {Expressions.sort(column(plan.get("orderBy").asText()), SortDirection.ASCENDING)};
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return WriteMetrics.all();
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return metrics;
  }

  @Override
  public BatchWrite toBatch() {
    return this;
  }

  @Override
  public StreamingWrite toStreaming() {
    if (!isQuery(info)) {
      // Only a query with the continuous trigger has its one write before it runs: that is refused.
      plan(table, info, "continuous", null, null);
    }
    return new PravegaStreamingWrite(this);
  }

  private static JsonNode plan(PravegaTable table, LogicalWriteInfo info, String trigger, List<String> checks, String rows) {
    boolean realTime = "real-time".equals(trigger);
    return table.process.call(
        "planWrite",
        "namespace", table.identifier.namespace(),
        "table", table.identifier.name(),
        "options", info.options().asCaseSensitiveMap(),
        "staged", table.staged(),
        "trigger", trigger,
        "checks", checks,
        "rows", rows,
        "origins", realTime ? RowOrigins.of(info.queryId(), table) : null,
        "transaction", transaction(table, info),
        "case_sensitive", SQLConf.get().caseSensitiveAnalysis());
  }

  /** Whether the write is a query's, and asked for by the query's own thread. */
  private static boolean isQuery(LogicalWriteInfo info) {
    return info.queryId().equals(SparkContext.getOrCreate().getLocalProperty("sql.streaming.queryId"));
  }

  /** What the catalog process has settled. */
  String plan() {
    return plan.get("plan").asText();
  }

  PravegaTable table() {
    return table;
  }

  String queryId() {
    return info.queryId();
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
    return begin(physical, null, null);
  }

  /**
   * Begins a write, or one batch of a query.
   *
   * @param run the driver of a query
   * @param epoch the number of its batch, if it is known
   */
  DataWriterFactory begin(PhysicalWriteInfo physical, String run, Long epoch) {
    if (kind != Kind.APPEND || transaction != null) {
      // Asked before the tasks run: behind them an RDD may be a checkpoint, which doesn't tell where it came from.
      scans = SeenTable.scans();
      SeenTable.refuseUnknown(scans, table);
    }
    Object packed = ColumnarReaderFactory.available() ? rows.json() : null;
    int partitions = physical.numPartitions();
    boolean realTime = plan.get("atOnce").asBoolean() && epoch != null;
    JsonNode begun =
        table.process.begin(
            answer -> resumption(answer.get("writer").asText(), partitions),
            "beginWrite",
            "plan", plan(),
            "partitions", partitions,
            "packed", packed,
            "overwrite", kind == Kind.OVERWRITE,
            "changes", kind == Kind.CHANGE,
            "run", realTime ? run : null,
            "epoch", realTime ? epoch : null,
            "start", realTime ? RunningQuery.begin(info.queryId(), epoch) : null,
            "streaming", epoch != null && !realTime);
    writer = begun.get("writer").asText();
    job = begun.get("job").asText(null);
    byte[] function = Base64.getDecoder().decode(begun.get("function").asText());
    if (plan.get("atOnce").asBoolean()) {
      return new PromptWriterFactory(table.process.python(), function, rows, begun.get("packed").asBoolean());
    }
    if (begun.get("packed").asBoolean()) {
      return new PackedWriterFactory(table.process.python(), function, rows);
    }
    return PythonTasks.writers(table.process.python(), function, rows);
  }

  private static CatalogProcess.Resumption resumption(String writer, int partitions) {
    return new CatalogProcess.Resumption(writer, "resumeWrite", "writer", writer, "partitions", partitions);
  }

  /**
   * Attempts at a partition are told apart by their messages when the job commits. Spark's own leave for one of them would
   * be held by a failed attempt until Spark has noted the failure: the next one would be refused, and the user be told of
   * that instead of the error.
   */
  @Override
  public boolean useCommitCoordinator() {
    return false;
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    JsonNode report;
    if (transaction == null) {
      List<String> seen = SeenTable.of(scans, table, info.options().asCaseSensitiveMap(), job);
      report = end("commitWrite", messages, "seen", seen);
    } else {
      List<Map<String, String>> cached = SeenTable.outside(scans, transaction);
      report = end("commitWrite", messages, "transaction", transaction, "cached", cached);
    }
    metrics = WriteMetrics.of(report);
    MetricSources.committed(report);
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    if (writer != null && transaction == null) {
      end("abortWrite", messages);
    } else if (writer != null) {
      // A cancelled statement may be on its way into the transaction.
      end("abortWrite", messages, "transaction", transaction);
    }
  }

  /** Commits or aborts; further parameters are a list of names and values. */
  JsonNode end(String method, WriterCommitMessage[] messages, Object... more) {
    table.process.dismiss(writer);
    List<String> pickled = new ArrayList<>();
    for (WriterCommitMessage message : messages) {
      pickled.add(
          message == null
              ? null
              : Base64.getEncoder().encodeToString(((PythonWriterCommitMessage) message).pickledMessage()));
    }
    List<Object> parameters = new ArrayList<>(List.of("writer", writer, "messages", pickled));
    parameters.addAll(List.of(more));
    return table.process.callAgain(method, parameters.toArray());
  }

  /**
   * Where an epoch of the query ends in its sources, as the query's checkpoint tells it; null where that isn't known. A
   * real-time query notes it behind the epoch.
   */
  List<String> offsets(long epoch) {
    return RunningQuery.offsets(info.queryId(), epoch);
  }

  private static NamedReference column(String name) {
    return Expressions.column(Names.quoted(name));
  }

  /** Appends, or replaces all rows; never some of them. A streaming query may also append its updates. */
  public static final class Builder implements SupportsTruncate, SupportsDynamicOverwrite, SupportsStreamingUpdateAsAppend {
    private final PravegaTable table;
    private final LogicalWriteInfo info;
    private boolean overwrite;

    public Builder(PravegaTable table, LogicalWriteInfo info) {
      this.table = table;
      this.info = info;
    }

    @Override
    public WriteBuilder truncate() {
      if (isQuery()) {
        throw Unchecked.sneak(
            new PravegaException(
                "PRAVEGA_UNSUPPORTED_OPERATION",
                PravegaException.UNSUPPORTED,
                "output mode complete would replace all rows with each micro-batch: take update, and read the latest"
                    + " row of each key"));
      }
      overwrite = true;
      return this;
    }

    @Override
    public WriteBuilder overwriteDynamicPartitions() {
      // There are no partitions that could stay.
      return truncate();
    }

    @Override
    public Write build() {
      // Spark builds a write for each micro-batch; a query's is settled once.
      JsonNode plan = isQuery() ? table.queryPlan(info.queryId(), this::plan) : plan();
      Kind kind = overwrite || table.replaces() ? Kind.OVERWRITE : Kind.APPEND;
      return new PravegaWrite(table, info, plan, kind, info.schema());
    }

    private JsonNode plan() {
      if (isQuery()) {
        // Spark holds the rows of statements against columns and constraints, not those of streaming queries.
        boolean realTime = RunningQuery.isRealTime(info.queryId());
        if (realTime) {
          PromptRunner.refuseUnlessThere();
        }
        return PravegaWrite.plan(table, info, realTime ? "real-time" : null, null, info.schema().json());
      }
      return PravegaWrite.plan(table, info, null, table.enforced(), null);
    }

    private boolean isQuery() {
      return PravegaWrite.isQuery(info);
    }
  }
}
