package pyspark.pravega.write;

import java.io.IOException;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.RowDeltaUtils;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import pyspark.pravega.internals.SpillingRows;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Gathers the changes of a task, which Spark tells one by one, and hands them to the writer of whole tasks: the table's
 * columns, and what becomes of the row. They are kept in Spark's own row array, which spills to disk.
 */
final class ChangeWriterFactory implements DeltaWriterFactory {
  private static final int ROWS_IN_MEMORY = 4096;
  private static final long BYTES_IN_MEMORY = 16 << 20;

  private final DataWriterFactory inner;
  private final StructType rows;
  private final int[] ofRow;
  private final int[] ofId;

  /**
   * @param inner writes all rows of a task
   * @param rows the columns that it takes: the table's, and what becomes of a row
   * @param row the columns of a row that is inserted
   * @param id those of a row that is deleted
   */
  ChangeWriterFactory(DataWriterFactory inner, StructType rows, StructType row, StructType id) {
    this.inner = inner;
    this.rows = rows;
    ofRow = ordinals(row);
    ofId = ordinals(id);
  }

  private int[] ordinals(StructType from) {
    List<String> names = Arrays.asList(from.fieldNames());
    return Arrays.stream(rows.fieldNames()).mapToInt(names::indexOf).toArray();
  }

  @Override
  public DeltaWriter<InternalRow> createWriter(int partition, long task) {
    return new Writer(inner.createWriter(partition, task));
  }

  private final class Writer implements DeltaWriter<InternalRow> {
    private final DataWriter<InternalRow> writer;
    private final UnsafeProjection projection = UnsafeProjection.create(rows);
    private final SpillingRows changes = new SpillingRows(ROWS_IN_MEMORY, BYTES_IN_MEMORY);

    Writer(DataWriter<InternalRow> writer) {
      this.writer = writer;
    }

    @Override
    public void delete(InternalRow metadata, InternalRow id) {
      add(id, ofId, RowDeltaUtils.DELETE_OPERATION());
    }

    @Override
    public void insert(InternalRow row) {
      add(row, ofRow, RowDeltaUtils.INSERT_OPERATION());
    }

    @Override
    public void reinsert(InternalRow metadata, InternalRow row) {
      add(row, ofRow, RowDeltaUtils.REINSERT_OPERATION());
    }

    @Override
    public void update(InternalRow metadata, InternalRow id, InternalRow row) {
      throw new UnsupportedOperationException("updates come as deletions and insertions");
    }

    private void add(InternalRow from, int[] ordinals, int operation) {
      Object[] values = new Object[ordinals.length];
      StructField[] fields = rows.fields();
      for (int i = 0; i < values.length - 1; i++) {
        values[i] = ordinals[i] < 0 ? null : from.get(ordinals[i], fields[i].dataType());
      }
      values[values.length - 1] = operation;
      changes.add(projection.apply(new GenericInternalRow(values)));
    }

    @Override
    public WriterCommitMessage commit() throws IOException {
      Iterator<UnsafeRow> all = CollectionConverters.asJava(changes.generateIterator());
      writer.writeAll(
          new Iterator<>() {
            @Override
            public boolean hasNext() {
              return all.hasNext();
            }

            @Override
            public InternalRow next() {
              return all.next();
            }
          });
      return writer.commit();
    }

    @Override
    public void abort() throws IOException {
      writer.abort();
    }

    @Override
    public void close() throws IOException {
      changes.clear();
      writer.close();
    }
  }
}
