package pyspark.pravega.write;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.RowLevelOperation.Command;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import pyspark.pravega.bridge.Names;
import pyspark.pravega.catalog.PravegaTable;

/** The write of a statement that changes rows: what happens to a key comes to one task, deletions first. */
public final class PravegaChanges implements DeltaWrite, DeltaBatchWrite, RequiresDistributionAndOrdering {
  /** The last column of what tasks are given: what becomes of a row. */
  private static final String OPERATION = "_row_operation";

  /** Spark's own column for it, in the query's plan. */
  public static final String SPARKS_OPERATION = "__row_operation";

  private final PravegaTable table;
  private final LogicalWriteInfo info;
  private final Command command;
  private final StructType rows;
  private final PravegaWrite write;

  PravegaChanges(PravegaTable table, LogicalWriteInfo info, Command command) {
    this.table = table;
    this.info = info;
    this.command = command;
    StructType columns = new StructType();
    for (StructField field : table.schema().fields()) {
      // Of a row that is deleted only the columns are known that identify it.
      columns = columns.add(field.name(), field.dataType(), true);
    }
    for (String name : table.rowId()) {
      if (!Arrays.asList(columns.fieldNames()).contains(name)) {
        // What a row that is deleted tells beside its columns, as its version.
        columns = columns.add(name, table.field(name).dataType(), true);
      }
    }
    rows = columns.add(OPERATION, DataTypes.IntegerType, false);
    write = PravegaWrite.ofChanges(table, info, rows);
  }

  @Override
  public String description() {
    return write.description();
  }

  @Override
  public Distribution requiredDistribution() {
    // A DELETE has one row for each key.
    return command == Command.DELETE ? Distributions.unspecified() : Distributions.clustered(key());
  }

  @Override
  public SortOrder[] requiredOrdering() {
    if (command == Command.DELETE) {
      return new SortOrder[0];
    }
    List<SortOrder> order = new ArrayList<>();
    for (NamedReference column : key()) {
      order.add(Expressions.sort(column, SortDirection.ASCENDING));
    }
    order.add(Expressions.sort(Expressions.column(SPARKS_OPERATION), SortDirection.ASCENDING));
    return order.toArray(new SortOrder[0]);
  }

  private NamedReference[] key() {
    return Names.references(table.primaryKey());
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return write.supportedCustomMetrics();
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return write.reportDriverMetrics();
  }

  @Override
  public DeltaBatchWrite toBatch() {
    return this;
  }

  @Override
  public DeltaWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
    StructType id = info.rowIdSchema().orElseThrow();
    return new ChangeWriterFactory(write.begin(physical, null, null), rows, info.schema(), id);
  }

  @Override
  public boolean useCommitCoordinator() {
    return write.useCommitCoordinator();
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    write.commit(messages);
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    write.abort(messages);
  }
}
