package pyspark.pravega;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Base64;
import java.util.Map;
import java.util.OptionalLong;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/** A batch read. The catalog process plans it when Spark first asks about it: its ends are fixed from then on. */
final class PravegaBatch implements Batch {
  private final PravegaTable table;
  private final StructType readSchema;
  private final boolean limited;
  private final Map<String, String> options;
  private final Supplier<JsonNode> planner;
  private JsonNode plan;
  private JsonNode narrowed;
  private Scan scan;

  PravegaBatch(
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

  /** Says which scan it belongs to. */
  void belongsTo(Scan scan) {
    this.scan = scan;
  }

  /** Plans it, unless that is done. */
  synchronized JsonNode plan() {
    if (plan == null) {
      plan = planner.get();
    }
    return plan;
  }

  /** Leaves out what predicates don't want that were only known when the query ran. Its ends stay as they are. */
  synchronized void narrow(Predicate[] predicates) {
    JsonNode planned = plan();
    JsonNode left =
        table.process.callAgain(
            "narrowScan",
            "namespace", table.identifier.namespace(),
            "table", table.identifier.name(),
            "options", options,
            "partitions", planned.get("partitions"),
            "seen", planned.get("seen"),
            "places", planned.get("places"),
            "predicates", Predicates.of(predicates));
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
    return " [" + left().get("segments").asInt() + " segments with events, " + size() + " bytes]";
  }

  /** What a statement that replaces the table's rows has read of it; null of a moment of the past, or nothing yet. */
  synchronized String seen() {
    return plan == null || plan.get("seen").isNull() ? null : left().get("seen").asText();
  }

  long size() {
    return plan().get("size").asLong();
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
        table.process.python(),
        Base64.getDecoder().decode(plan().get("function").asText()),
        readSchema,
        (StructType) DataType.fromJson(plan().get("schema").asText()),
        limited,
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
   * @param endsSoon whether it ends by itself right behind what the query takes of it
   * @param sharedMemory how many bytes a task's worker may share with it; 0 for none
   */
  static PartitionReaderFactory readerFactory(
      UserDefinedPythonDataSource python,
      byte[] function,
      StructType readSchema,
      StructType batchSchema,
      boolean endsSoon,
      long sharedMemory) {
    if (ColumnarReaderFactory.available()) {
      return new ColumnarReaderFactory(python, function, readSchema.size(), endsSoon, sharedMemory);
    }
    return new PythonPartitionReaderFactory(python, function, batchSchema, Option.empty(), Option.empty());
  }
}
