package pyspark.pravega.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.expressions.ClusterByTransform;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.ReportsSinkMetrics;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import pyspark.pravega.bridge.Answers;
import pyspark.pravega.bridge.CatalogError;
import pyspark.pravega.bridge.CatalogProcess;
import pyspark.pravega.bridge.Names;
import pyspark.pravega.bridge.SessionTransaction;
import pyspark.pravega.bridge.Unchecked;
import pyspark.pravega.read.PravegaScanBuilder;
import pyspark.pravega.write.PravegaRowLevelOperation;
import pyspark.pravega.write.PravegaWrite;
import pyspark.pravega.write.RefusedRowLevelOperation;
import pyspark.pravega.write.WriteMetrics;
import scala.jdk.javaapi.CollectionConverters;

/** A stream as a table. */
public class PravegaTable extends EvolvingTable
    implements SupportsRead,
        SupportsWrite,
        SupportsMetadataColumns,
        TruncatableTable,
        SupportsRowLevelOperations,
        ReportsSinkMetrics {
  public final CatalogProcess process;
  public final Identifier identifier;
  public final SessionTransaction transaction;
  private final String catalog;
  private final String stream;
  private final String id;
  private final StructType schema;
  private final Map<String, String> known;
  private volatile Map<String, String> properties;
  private final StructType metadata;
  private final List<String> primaryKey;
  private final List<String> rowId;
  private volatile JsonNode position;
  private final JsonNode staged;
  private final Map<String, JsonNode> queryPlans = new ConcurrentHashMap<>();
  private final Set<String> runs = ConcurrentHashMap.newKeySet();
  private final Set<Map<String, String>> checkedOptions = ConcurrentHashMap.newKeySet();
  private final Set<Map<String, String>> checkedStreams = ConcurrentHashMap.newKeySet();
  private volatile Map<String, String> lastCommit = Map.of();

  public PravegaTable(
      CatalogProcess process, String catalog, SessionTransaction transaction, Identifier identifier, JsonNode loaded) {
    super(loaded, identifier.name());
    this.process = process;
    this.transaction = transaction;
    this.catalog = catalog;
    this.identifier = identifier;
    stream = loaded.get("stream").asText();
    id = loaded.hasNonNull("id") ? loaded.get("id").asText() : null;
    schema = Answers.struct(loaded.get("schema"));
    known = Answers.strings(loaded.get("properties"));
    properties = loaded.path("whole").asBoolean() ? known : null;
    metadata = Answers.struct((loaded.has("metadata") ? loaded : process.greeting()).get("metadata"));
    primaryKey = Answers.names(loaded.get("primaryKey"));
    rowId = Answers.names(loaded.get("rowId"));
    position = loaded.get("position");
    staged = loaded.get("staged");
  }

  /** The stream's scope and name. */
  public String stream() {
    return stream;
  }

  /** Whether another one is the same part of the same stream, by the same name and with the same columns. */
  public boolean isSame(PravegaTable other) {
    return process == other.process
        && identifier.equals(other.identifier)
        && schema.equals(other.schema)
        && Objects.equals(position, other.position);
  }

  @Override
  public String name() {
    return catalog + "." + identifier;
  }

  /**
   * Another one when the table is dropped and made again: Spark, which asks since 4.1, then refuses to run what it has
   * analysed before.
   */
  public String id() {
    return id;
  }

  @Override
  @SuppressWarnings("deprecation")
  public StructType schema() {
    // Columns of CHAR and VARCHAR travel as strings that know what they were.
    return CharVarcharUtils.getRawSchema(schema);
  }

  /** Also those that others keep: the controller, and the registry. */
  @Override
  public Map<String, String> properties() {
    if (properties == null) {
      try {
        properties =
            Answers.strings(
                process.callAgain("tableProperties", "namespace", identifier.namespace(), "table", identifier.name()));
      } catch (Exception error) {
        throw Unchecked.sneak(error instanceof CatalogError told ? told.about(identifier) : error);
      }
    }
    return properties;
  }

  /** Those that a read or a write needs, which came with the table. */
  public Map<String, String> known() {
    return known;
  }

  @Override
  public Transform[] partitioning() {
    String key = known.get("routing-key");
    // Keys of several columns, and fixed ones, aren't a transform that Spark knows.
    if (key == null || !Arrays.asList(schema.fieldNames()).contains(key)) {
      return new Transform[0];
    }
    // As CLUSTER BY says it; the number of segments is a property.
    return new Transform[] {
      new ClusterByTransform(CollectionConverters.asScala(List.<NamedReference>of(Expressions.column(Names.quoted(key)))).toSeq())
    };
  }

  @Override
  public Set<TableCapability> capabilities() {
    Set<TableCapability> all = evolution();
    all.addAll(ScanMerging.capability());
    all.addAll(
        EnumSet.of(
            TableCapability.BATCH_READ,
            TableCapability.MICRO_BATCH_READ,
            TableCapability.BATCH_WRITE,
            TableCapability.STREAMING_WRITE,
            TableCapability.TRUNCATE,
            TableCapability.OVERWRITE_DYNAMIC));
    return all;
  }

  /** Spark asks for it since 4.2. */
  public boolean supportsColumnChange(TableChange.ColumnChange change) {
    // A column that can't be added is an error, which says why; of a type that stays Spark casts the values.
    return change instanceof TableChange.AddColumn
        || process
            .callAgain(
                "supportsChange",
                "namespace", identifier.namespace(),
                "table", identifier.name(),
                "change", Changes.of(change).get(0))
            .asBoolean();
  }

  @Override
  public MetadataColumn[] metadataColumns() {
    return Arrays.stream(metadata.fields()).map(MetadataField::new).toArray(MetadataColumn[]::new);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new PravegaScanBuilder(this, options);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new PravegaWrite.Builder(this, info);
  }

  /** What a streaming query's last commit to this table came to, for the query's progress. */
  @Override
  public Map<String, String> metrics() {
    return lastCommit;
  }

  /** Keeps what a streaming query's commit came to. */
  public void report(JsonNode commit) {
    lastCommit = WriteMetrics.progress(commit);
  }

  /** How a streaming query writes here, settled with its first micro-batch. */
  public JsonNode queryPlan(String query, Supplier<JsonNode> settle) {
    return queryPlans.computeIfAbsent(query, id -> settle.get());
  }

  /** Does something with the first micro-batch of each start of a streaming query. */
  public synchronized void onceForRun(String run, Runnable action) {
    if (!runs.contains(run)) {
      action.run();
      runs.add(run);
    }
  }

  @Override
  public boolean truncateTable() {
    process.call(
        "truncateTable",
        "namespace", identifier.namespace(),
        "table", identifier.name(),
        "transaction", transaction.id());
    return true;
  }

  @Override
  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
    if (!primaryKey.isEmpty()) {
      // Spark asks for the constraints behind this.
      changeRows();
      return () -> new PravegaRowLevelOperation(this, info.command());
    }
    if (info.command() == RowLevelOperation.Command.DELETE) {
      // Its condition may turn out to be true for all rows: then Spark truncates the table, and asks for no operation.
      return () -> new RefusedRowLevelOperation(this);
    }
    throw refused(info.command());
  }

  /** Refuses options of a read that are wrong: once for each, as Spark analyses a query again and again. */
  public void checkOptions(Map<String, String> options) {
    if (!options.isEmpty() && !checkedOptions.contains(options)) {
      process.call("checkRead", "namespace", identifier.namespace(), "table", identifier.name(), "options", options);
      areChecked(options);
    }
  }

  /** Refuses a streaming read that can't be, or whose options are wrong: once for each, as `checkOptions`. */
  public void checkStream(Map<String, String> options) {
    transaction.refuse("a streaming query");
    checkOptions(options);
    if (!checkedStreams.contains(options)) {
      process.call(
          "checkStream",
          "namespace", identifier.namespace(),
          "table", identifier.name(),
          "options", options,
          "position", position);
      checkedStreams.add(options);
    }
  }

  /** Notes that options of a read are in order. */
  void areChecked(Map<String, String> options) {
    checkedOptions.add(options);
  }

  /** Refuses a statement that would give a row another key. */
  public void refuseOtherKey(String column) {
    process.call("refuseOtherKey", "namespace", identifier.namespace(), "table", identifier.name(), "column", column);
  }

  /** Why rows can't be changed. */
  public RuntimeException refused(RowLevelOperation.Command command) {
    process.call(
        "refuseRowLevel",
        "namespace", identifier.namespace(),
        "table", identifier.name(),
        "command", command.name());
    return new UnsupportedOperationException(command.name());
  }

  /** The columns of the primary key, if there is one. */
  public List<String> primaryKey() {
    return primaryKey;
  }

  /** The columns that must be known of a row to delete it. */
  public List<String> rowId() {
    return rowId;
  }

  /** Which part of the stream is meant where not all of it is; what it says is the catalog process's matter. */
  public JsonNode position() {
    return position;
  }

  /** Keeps what the bounds of its reads mean; a moment of the past stays, as a read of it has no bounds. */
  void between(JsonNode bounds) {
    if (position == null) {
      position = bounds;
    }
  }

  /** What is to become of a table that isn't there yet as it will be; the catalog process's matter, too. */
  public JsonNode staged() {
    return staged;
  }

  /** Whether rows that are written take the place of those there: so they do when a table is replaced. */
  public boolean replaces() {
    return staged != null && staged.get("kind").asText().equals("StagedReplacement");
  }

  /** All columns, as Spark reads them. */
  public StructType allFields() {
    return schema;
  }

  /** The fields of the columns that a query wants; of a struct always the whole. */
  public StructType fields(StructType wanted) {
    return new StructType(Arrays.stream(wanted.fieldNames()).map(this::field).toArray(StructField[]::new));
  }

  /** A column, or a metadata column. */
  public StructField field(String name) {
    StructType from = Arrays.asList(schema.fieldNames()).contains(name) ? schema : metadata;
    return from.apply(name);
  }

  private record MetadataField(StructField field) implements MetadataColumn {
    @Override
    public String name() {
      return field.name();
    }

    @Override
    public DataType dataType() {
      return field.dataType();
    }

    @Override
    public boolean isNullable() {
      return field.nullable();
    }
  }
}
