package pyspark.pravega.read;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import pyspark.pravega.bridge.CatalogProcess;
import pyspark.pravega.catalog.PravegaTable;
import pyspark.pravega.internals.PromptRunner;

/**
 * A streaming read; the catalog process plans its micro-batches. Each call says what is read, so that the process may die
 * in between, and nothing is known only there.
 */
final class PravegaMicroBatchStream
    implements MicroBatchStream, SupportsTriggerAvailableNow, RealTimeStream, ReportsSourceMetrics {
  private final CatalogProcess process;
  private final Map<String, Object> source;
  private final StructType readSchema;
  private final JsonNode opened;
  private String target;
  private JsonNode realTime;
  private int followers;
  private volatile String planned;

  PravegaMicroBatchStream(PravegaTable table, StructType readSchema, Map<String, String> options) {
    process = table.process;
    this.readSchema = readSchema;
    source = new HashMap<>();
    source.put("id", UUID.randomUUID().toString());
    source.put("namespace", table.identifier.namespace());
    source.put("table", table.identifier.name());
    source.put("columns", readSchema.fieldNames());
    source.put("schema", table.allFields().json());
    source.put("options", options);
    source.put("position", table.position());
    opened = ask("openStream");
  }

  @Override
  public Offset initialOffset() {
    return offset(ask("streamInitial"));
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("latestOffset(start, limit) is called instead");
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    if (isRealTime()) {
      // A batch has its end when it is over.
      return start;
    }
    boolean limited = !(limit instanceof ReadAllAvailable);
    return offset(ask("streamLatest", "start", start.json(), "limited", limited, "target", target));
  }

  @Override
  public Offset reportLatestOffset() {
    if (isRealTime()) {
      // It would be asked for between two batches, when rows wait. The lag is told without it.
      return null;
    }
    return offset(ask("streamTail"));
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    List<ReadLimit> limits = new ArrayList<>();
    if (!opened.get("maxEvents").isNull()) {
      limits.add(ReadLimit.maxRows(opened.get("maxEvents").asLong()));
    }
    if (!opened.get("maxBytes").isNull()) {
      limits.add(ReadLimit.maxBytes(opened.get("maxBytes").asLong()));
    }
    if (!opened.get("minEvents").isNull()) {
      limits.add(ReadLimit.minRows(opened.get("minEvents").asLong(), opened.get("maxDelayMs").asLong()));
    }
    return switch (limits.size()) {
      case 0 -> ReadLimit.allAvailable();
      case 1 -> limits.get(0);
      default -> ReadLimit.compositeLimit(limits.toArray(new ReadLimit[0]));
    };
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    target = ask("streamTarget").asText();
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    JsonNode found = ask("streamPlan", "start", start.json(), "end", end.json());
    InputPartition[] partitions = new InputPartition[found.size()];
    for (int i = 0; i < partitions.length; i++) {
      partitions[i] = new PythonInputPartition(i, Base64.getDecoder().decode(found.get(i).asText()));
    }
    planned = end.json();
    return partitions;
  }

  /** As {@link RealTimeStream} has it, since Spark 4.1. */
  public void prepareForRealTimeMode() {
    PromptRunner.refuseUnlessThere();
    realTime = ask("openRealTime");
  }

  /** Whether rows are read as they come, in batches whose ends aren't known before. */
  boolean isRealTime() {
    return realTime != null;
  }

  /** As {@link RealTimeStream} has it. */
  public InputPartition[] planInputPartitions(Offset start) {
    int cores = SparkContext.getOrCreate().defaultParallelism();
    JsonNode found = ask("streamFollow", "start", start.json(), "cores", cores);
    InputPartition[] partitions = new InputPartition[found.size()];
    for (int i = 0; i < partitions.length; i++) {
      TreeMap<Long, Long> begin = new TreeMap<>();
      found
          .get(i)
          .get("start")
          .properties()
          .forEach(segment -> begin.put(Long.valueOf(segment.getKey()), segment.getValue().asLong()));
      byte[] pickled = Base64.getDecoder().decode(found.get(i).get("partition").asText());
      partitions[i] = new RealTimeReaderFactory.Followed(i, pickled, begin);
    }
    followers = partitions.length;
    planned = start.json();
    return partitions;
  }

  /** As {@link RealTimeStream} has it. */
  public Offset mergeOffsets(PartitionOffset[] ends) {
    if (ends.length != followers) {
      throw new IllegalStateException(
          "only " + ends.length + " of " + followers + " tasks have told how far they have read: what the others have"
              + " read would be lost, so the batch fails. A query with the real-time trigger must take all rows");
    }
    List<Object> offsets = new ArrayList<>();
    for (PartitionOffset end : ends) {
      offsets.add(((RealTimeReaderFactory.SegmentOffsets) end).offsets());
    }
    Offset merged = offset(ask("streamMerge", "start", planned, "positions", offsets));
    planned = merged.json();
    return merged;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    if (isRealTime()) {
      return new RealTimeReaderFactory(
          process.python(),
          Base64.getDecoder().decode(realTime.get("function").asText()),
          readSchema.size(),
          (StructType) DataType.fromJson(realTime.get("schema").asText()));
    }
    return PravegaBatch.readerFactory(
        process.python(),
        Base64.getDecoder().decode(opened.get("function").asText()),
        readSchema,
        (StructType) DataType.fromJson(opened.get("schema").asText()),
        opened.get("sharedMemory").asLong());
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new Cut(json);
  }

  @Override
  public void commit(Offset end) {
    ask("streamCommit", "end", end.json());
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> consumed) {
    return consumed.isPresent() ? lag(consumed.get().json()) : Map.of();
  }

  @Override
  public void stop() {
    try {
      process.call("stopStream", "id", source.get("id"));
    } catch (RuntimeException error) {
      // A process that has died knows nothing of the read any more.
    }
  }

  /** The lag behind the last micro-batch that was planned. */
  Map<String, String> lag() {
    return planned == null ? Map.of() : lag(planned);
  }

  private Map<String, String> lag(String consumed) {
    Map<String, String> figures = new HashMap<>();
    ask("streamMetrics", "consumed", consumed)
        .properties()
        .forEach(figure -> figures.put(figure.getKey(), figure.getValue().asText()));
    return figures;
  }

  private JsonNode ask(String method, Object... namesAndValues) {
    Object[] all = new Object[namesAndValues.length + 2];
    all[0] = "source";
    all[1] = source;
    System.arraycopy(namesAndValues, 0, all, 2, namesAndValues.length);
    return process.callAgain(method, all);
  }

  private static Offset offset(JsonNode text) {
    return new Cut(text.asText());
  }

  /** An offset, in the text that the catalog process has made. */
  private static final class Cut extends Offset {
    private final String json;

    Cut(String json) {
      this.json = json;
    }

    @Override
    public String json() {
      return json;
    }
  }
}
