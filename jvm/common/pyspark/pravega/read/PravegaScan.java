package pyspark.pravega.read;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import pyspark.pravega.bridge.Names;
import pyspark.pravega.catalog.PravegaTable;
import pyspark.pravega.internals.StreamedColumns;

/** A read of which Spark hasn't said yet whether it is a batch or a stream; what it asks here, it asks of either. */
final class PravegaScan implements SeenTable, SupportsReportStatistics, SupportsRuntimeV2Filtering {
  private final PravegaTable table;
  private final StructType readSchema;
  private final Map<String, String> options;
  private final boolean filteredAtRuntime;
  private final PravegaBatch batch;
  private PravegaMicroBatchStream stream;

  PravegaScan(
      PravegaTable table,
      StructType readSchema,
      Map<String, String> options,
      boolean filteredAtRuntime,
      PravegaBatch batch) {
    this.table = table;
    this.readSchema = readSchema;
    this.options = options;
    this.filteredAtRuntime = filteredAtRuntime;
    this.batch = batch;
    batch.belongsTo(this);
  }

  /** As of batches; each streaming read is one of its own. */
  @Override
  public boolean equals(Object other) {
    return this == other
        || other instanceof PravegaScan scan && stream == null && scan.stream == null && batch.equals(scan.batch);
  }

  @Override
  public int hashCode() {
    return batch.hashCode();
  }

  @Override
  public StructType readSchema() {
    return readSchema;
  }

  @Override
  public String description() {
    return "Pravega " + table.name() + batch.extent();
  }

  @Override
  public PravegaTable table() {
    return table;
  }

  @Override
  public Map<String, String> options() {
    return options;
  }

  @Override
  public String seen() {
    return batch.seen();
  }

  @Override
  public String transaction() {
    return batch.transaction();
  }

  @Override
  public Batch toBatch() {
    batch.plan();
    return batch;
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    StructType columns = table.fields(StreamedColumns.of(table, readSchema));
    stream = new PravegaMicroBatchStream(table, columns, options);
    return stream;
  }

  @Override
  public NamedReference[] filterAttributes() {
    if (!filteredAtRuntime) {
      return new NamedReference[0];
    }
    return Names.references(batch.filters());
  }

  @Override
  public void filter(Predicate[] predicates) {
    batch.narrow(predicates);
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return stream == null ? ScanMetric.all() : LagMetric.all();
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return stream == null ? batch.metrics() : LagMetric.values(stream.lag());
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    if (stream == null) {
      // Spark asks this while it plans a query: from here on its ends are fixed.
      batch.plan();
    } else if (stream.isRealTime()) {
      return ColumnarSupportMode.UNSUPPORTED;
    }
    return PravegaBatch.columnarSupportMode();
  }

  @Override
  public Statistics estimateStatistics() {
    if (stream != null) {
      // How much a micro-batch will have isn't known; what the whole stream has doesn't tell it.
      return new Size(OptionalLong.empty(), OptionalLong.empty());
    }
    JsonNode analyzed = batch.analyzed();
    if (analyzed == null) {
      return new Size(OptionalLong.of(batch.memory()), batch.rows());
    }
    Map<NamedReference, ColumnStatistics> columns = ColumnFigures.of(analyzed.get("columns"), readSchema);
    if (SQLConf.get().cboEnabled()) {
      // What conditions leave Spark then estimates itself, by figures of all rows.
      return new Size(
          OptionalLong.of(analyzed.get("memory").asLong()), OptionalLong.of(analyzed.get("rows").asLong()), columns);
    }
    return new Size(OptionalLong.of(batch.memory()), batch.rows(), columns);
  }

  private record Size(OptionalLong sizeInBytes, OptionalLong numRows, Map<NamedReference, ColumnStatistics> columnStats)
      implements Statistics {
    private Size(OptionalLong sizeInBytes, OptionalLong numRows) {
      this(sizeInBytes, numRows, Map.of());
    }
  }
}
