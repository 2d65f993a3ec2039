package pyspark.pravega;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Base64;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/** A read, planned by the catalog process when the query is: its ends are fixed from then on. */
final class PravegaScan implements Scan, Batch, SupportsReportStatistics {
  private static final boolean COLUMNAR = ColumnarReaderFactory.available();

  private final String description;
  private final StructType readSchema;
  private final StructType batchSchema;
  private final byte[] function;
  private final InputPartition[] partitions;
  private final UserDefinedPythonDataSource python;
  private final long size;

  private PravegaScan(PravegaTable table, StructType readSchema, JsonNode plan) {
    this.readSchema = readSchema;
    batchSchema = (StructType) DataType.fromJson(plan.get("schema").asText());
    function = Base64.getDecoder().decode(plan.get("function").asText());
    JsonNode planned = plan.get("partitions");
    partitions = new InputPartition[planned.size()];
    for (int i = 0; i < partitions.length; i++) {
      partitions[i] = new PythonInputPartition(i, Base64.getDecoder().decode(planned.get(i).asText()));
    }
    python = table.process.python();
    size = plan.get("size").asLong();
    description =
        "Pravega " + table.name() + " [" + plan.get("segments").asInt() + " segments with events, " + size + " bytes]";
  }

  @Override
  public StructType readSchema() {
    return readSchema;
  }

  @Override
  public String description() {
    return description;
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    return partitions;
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return COLUMNAR ? ColumnarSupportMode.SUPPORTED : ColumnarSupportMode.UNSUPPORTED;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    if (COLUMNAR) {
      return new ColumnarReaderFactory(python, function, readSchema.size());
    }
    return new PythonPartitionReaderFactory(
        python, function, batchSchema, Option.empty(), Option.empty());
  }

  @Override
  public Statistics estimateStatistics() {
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return OptionalLong.of(size);
      }

      @Override
      public OptionalLong numRows() {
        return OptionalLong.empty();
      }
    };
  }

  /** Takes what Spark pushes down. */
  static final class Builder implements ScanBuilder, SupportsPushDownRequiredColumns {
    private final PravegaTable table;
    private final CaseInsensitiveStringMap options;
    private StructType wanted;

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
    public Scan build() {
      JsonNode plan =
          table.process.call(
              "planScan",
              "namespace", table.identifier.namespace(),
              "table", table.identifier.name(),
              "columns", wanted.fieldNames(),
              "options", options.asCaseSensitiveMap());
      return new PravegaScan(table, wanted, plan);
    }
  }
}
