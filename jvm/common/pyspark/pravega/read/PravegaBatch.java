package pyspark.pravega.read;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import pyspark.pravega.bridge.Answers;
import pyspark.pravega.catalog.PravegaTable;
import pyspark.pravega.internals.PythonTasks;
import pyspark.pravega.internals.ScannedPartition;

/** A batch read. The catalog process plans it when Spark first asks about it: its ends are fixed from then on. */
final class PravegaBatch implements Batch {
  /** The table property that says which columns have an index. */
  private static final String INDEX_COLUMNS = "index-columns";

  private final Read read;
  private JsonNode plan;
  private JsonNode narrowed;
  private String transaction;
  private Scan scan;

  PravegaBatch(Read read) {
    this.read = read;
    read.moments.add(read);
  }

  /**
   * What is read, and when.
   *
   * @param moments of the query
   * @param predicates that only narrow what is read
   * @param limit how many rows are enough; null for all
   */
  record Read(
      Moments moments,
      PravegaTable table,
      StructType columns,
      Map<String, String> options,
      List<Predicate> predicates,
      Integer limit) {
    /** Plans it; the first one of a query settles its moment. */
    JsonNode plan(String transaction) {
      return moments.ask(table, (known, beside) -> plan(table.process::callAgain, known, beside, transaction));
    }

    /** Begins to plan it, as of a moment that is known. */
    Supplier<JsonNode> ahead(List<String> known, String transaction) {
      return plan(table.process::ahead, known, List.of(), transaction);
    }

    private <T> T plan(Way<T> way, List<String> known, List<String> beside, String transaction) {
      return way.call(
          "planScan",
          "namespace", table.identifier.namespace(),
          "table", table.identifier.name(),
          "columns", columns.fieldNames(),
          "schema", table.allFields().json(),
          "options", options,
          "position", table.position(),
          "predicates", Predicates.of(predicates.toArray(new Predicate[0])),
          "condition", Conditions.of(predicates),
          "skips", skips(),
          "limit", limit,
          "moments", known,
          "beside", beside,
          "transaction", transaction);
    }

    /** How the catalog process is called. */
    private interface Way<T> {
      T call(String method, Object... parameters);
    }

    /** What the catalog process takes of the predicates, which all hold: Spark looks at the others itself. */
    private Set<Map<String, Object>> told() {
      return Set.copyOf(Predicates.of(predicates.toArray(new Predicate[0])));
    }

    /** All that they say together, as far as it can be told; null of a table that has no index. */
    private Map<String, Object> condition() {
      return condition(predicates);
    }

    private Map<String, Object> condition(List<Predicate> predicates) {
      return skips() ? Conditions.of(predicates) : null;
    }

    /** Whether an index may leave out rows that the condition doesn't want; else it is for estimates only. */
    private boolean skips() {
      return table.known().containsKey(INDEX_COLUMNS);
    }

    /** Whether both are the same rows: of one moment, so of one query. */
    boolean gives(Read other) {
      return moments == other.moments
          && table.isSame(other.table)
          && columns.equals(other.columns)
          && options.equals(other.options)
          && told().equals(other.told())
          && Objects.equals(condition(), other.condition())
          && Objects.equals(limit, other.limit);
    }

    /** Whether both are the same rows, of which as many are wanted. */
    boolean isPlannedAs(Read other) {
      return gives(other) && Objects.equals(Conditions.of(predicates), Conditions.of(other.predicates));
    }
  }

  /** Spark reads once what two scans of a query both read. What only came out when the query ran doesn't count. */
  @Override
  public boolean equals(Object other) {
    return other instanceof PravegaBatch batch && read.gives(batch.read);
  }

  @Override
  public int hashCode() {
    return Objects.hash(read.table.stream(), read.columns, read.told(), read.limit);
  }

  /** Says which scan it belongs to. */
  void belongsTo(Scan scan) {
    this.scan = scan;
  }

  /** Plans it, unless that is done. */
  synchronized JsonNode plan() {
    if (plan == null) {
      transaction = read.table.transaction.id();
      plan = read.moments.plan(read, transaction);
    }
    return plan;
  }

  /** Leaves out what predicates don't want that were only known when the query ran. Its ends stay as they are. */
  synchronized void narrow(Predicate[] predicates) {
    JsonNode planned = plan();
    JsonNode left =
        read.table.process.callAgain(
            "narrowScan",
            "namespace", read.table.identifier.namespace(),
            "table", read.table.identifier.name(),
            "options", read.options,
            "partitions", planned.get("partitions"),
            "seen", planned.get("seen"),
            "routing", planned.get("routing"),
            "predicates", Predicates.of(predicates),
            "condition", read.condition(List.of(predicates)));
    narrowed = left.isNull() ? null : left;
  }

  /** What is read of it: all that was planned, or less. */
  private JsonNode left() {
    return narrowed == null ? plan() : narrowed;
  }

  /** What it reads, once it is planned; Spark asks also where nothing is read. */
  synchronized String extent() {
    if (plan == null) {
      return "";
    }
    JsonNode extent = left().get("extent");
    if (extent != null) {
      return " [" + extent.asText() + "]";
    }
    String without = skipped() == 0 ? "" : ", " + skipped() + " bytes skipped";
    return " [" + left().get("segments").asInt() + " segments with events, " + (size() - skippedLate()) + " bytes" + without + "]";
  }

  /** What a statement that replaces the table's rows has read of it; null of a moment of the past, or nothing yet. */
  synchronized String seen() {
    return plan == null || plan.get("seen").isNull() ? null : left().get("seen").asText();
  }

  /** The transaction in which it was planned; null for none. */
  synchronized String transaction() {
    return transaction;
  }

  /** How many bytes the table's index saves. */
  private long skipped() {
    return plan().path("skipped").asLong() + skippedLate();
  }

  /** How many of them it saved when the query ran. */
  private long skippedLate() {
    return narrowed == null ? 0 : narrowed.path("skipped").asLong();
  }

  synchronized CustomTaskMetric[] metrics() {
    return plan == null ? new CustomTaskMetric[0] : ScanMetric.values(size() - skippedLate(), skipped());
  }

  /** The columns whose values leave out much of it when a join tells them. */
  List<String> filters() {
    return Answers.names(plan().get("filters"));
  }

  long size() {
    return plan().get("size").asLong();
  }

  /** Figures of all rows, of a table with statistics; null of others. */
  JsonNode analyzed() {
    return plan().get("analyzed");
  }

  /** About how many bytes the wanted columns are as Spark's rows. */
  long memory() {
    return plan().get("memory").asLong();
  }

  /** About how many rows. */
  OptionalLong rows() {
    JsonNode rows = plan().get("rows");
    return rows.isNull() ? OptionalLong.empty() : OptionalLong.of(rows.asLong());
  }

  @Override
  public synchronized InputPartition[] planInputPartitions() {
    JsonNode planned = left().get("partitions");
    InputPartition[] partitions = new InputPartition[planned.size()];
    for (int i = 0; i < partitions.length; i++) {
      partitions[i] = new ScannedPartition(i, Base64.getDecoder().decode(planned.get(i).asText()), scan);
    }
    return partitions;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return readerFactory(
        read.table.process.python(),
        Base64.getDecoder().decode(plan().get("function").asText()),
        read.columns,
        (StructType) DataType.fromJson(plan().get("schema").asText()),
        plan().get("sharedMemory").asLong());
  }

  /** Whether tasks hand over batches of columns. */
  static Scan.ColumnarSupportMode columnarSupportMode() {
    return ColumnarReaderFactory.available()
        ? Scan.ColumnarSupportMode.SUPPORTED
        : Scan.ColumnarSupportMode.UNSUPPORTED;
  }

  /**
   * Reads what a pickled function gives: columnar where this Spark can do it.
   *
   * @param sharedMemory how many bytes a task's worker may share with it; 0 for none
   */
  static PartitionReaderFactory readerFactory(
      UserDefinedPythonDataSource python,
      byte[] function,
      StructType readSchema,
      StructType batchSchema,
      long sharedMemory) {
    if (ColumnarReaderFactory.available()) {
      return new ColumnarReaderFactory(python, function, readSchema.size(), sharedMemory);
    }
    return PythonTasks.readers(python, function, batchSchema);
  }
}
