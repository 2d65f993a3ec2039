package pyspark.pravega;

import java.util.Arrays;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Hands rows to the Python worker as they lie in memory, many in one value, instead of writing each value of each row
 * into an Arrow vector. The Python side takes them apart ({@code connector/write/unsafe_rows.py}). It runs Spark's Arrow
 * runner itself, as {@link ColumnarReaderFactory} does, and under the same conditions.
 */
final class PackedWriterFactory implements DataWriterFactory {
  private static final int PACK_BYTES = 1 << 20;
  private static final StructType INPUT =
      new StructType()
          .add(
              "struct",
              new StructType().add("rows", DataTypes.BinaryType).add("sizes", DataTypes.BinaryType));

  private final UserDefinedPythonDataSource source;
  private final byte[] function;
  private final StructType schema;
  private final String timeZone;
  private final scala.collection.immutable.Map<String, String> runnerConf;

  /**
   * @param source Spark's handle for Python functions
   * @param function the pickled write function, which expects packed rows
   * @param schema the rows' columns
   */
  PackedWriterFactory(UserDefinedPythonDataSource source, byte[] function, StructType schema) {
    this.source = source;
    this.function = function;
    this.schema = schema;
    SQLConf conf = SQLConf.get();
    timeZone = conf.sessionLocalTimeZone();
    runnerConf = ArrowPythonRunner.getPythonRunnerConfMap(conf);
  }

  @Override
  public DataWriter<InternalRow> createWriter(int partition, long task) {
    return new Writer(partition);
  }

  private final class Writer implements DataWriter<InternalRow> {
    private final int partition;
    private WriterCommitMessage message;

    Writer(int partition) {
      this.partition = partition;
    }

    @Override
    public void writeAll(Iterator<InternalRow> rows) {
      scala.collection.Iterator<ColumnarBatch> answers =
          WorkerRunner.run(
              source,
              function,
              INPUT,
              timeZone,
              runnerConf,
              CollectionConverters.asScala(new Packs(rows, schema)),
              partition);
      while (answers.hasNext()) {
        ColumnarBatch answer = answers.next();
        if (message != null || answer.numRows() != 1) {
          throw new IllegalStateException("the Python writer must answer with one message");
        }
        ArrowColumnVector struct = (ArrowColumnVector) answer.column(0);
        message = new PythonWriterCommitMessage(struct.getChild(0).getBinary(0));
      }
      if (message == null) {
        throw new IllegalStateException("the Python writer has not answered");
      }
    }

    @Override
    public void write(InternalRow row) {
      throw new UnsupportedOperationException("rows are written all together");
    }

    @Override
    public WriterCommitMessage commit() {
      return message;
    }

    @Override
    public void abort() {
      // The Python side does it when its input ends with an error.
    }

    @Override
    public void close() {
      // The runner frees its buffers and its worker when the task ends.
    }
  }

  /** Rows in packs; each is a batch of one value for the runner. */
  private static final class Packs implements Iterator<scala.collection.Iterator<InternalRow>> {
    private final Iterator<InternalRow> rows;
    private final UnsafeProjection projection;
    private byte[] data = new byte[64 << 10];
    private int[] sizes = new int[1024];

    Packs(Iterator<InternalRow> rows, StructType schema) {
      this.rows = rows;
      projection = UnsafeProjection.create(schema);
    }

    @Override
    public boolean hasNext() {
      return rows.hasNext();
    }

    @Override
    public scala.collection.Iterator<InternalRow> next() {
      int used = 0;
      int count = 0;
      while (used < PACK_BYTES && rows.hasNext()) {
        InternalRow row = rows.next();
        UnsafeRow unsafe = row instanceof UnsafeRow same ? same : projection.apply(row);
        int size = unsafe.getSizeInBytes();
        if (used + size > data.length) {
          data = Arrays.copyOf(data, Math.max(Math.multiplyExact(data.length, 2), Math.addExact(used, size)));
        }
        if (count == sizes.length) {
          sizes = Arrays.copyOf(sizes, count * 2);
        }
        Platform.copyMemory(
            unsafe.getBaseObject(),
            unsafe.getBaseOffset(),
            data,
            Platform.BYTE_ARRAY_OFFSET + (long) used,
            size);
        used += size;
        sizes[count++] = size;
      }
      byte[] packedSizes = new byte[count * Integer.BYTES];
      Platform.copyMemory(
          sizes, Platform.INT_ARRAY_OFFSET, packedSizes, Platform.BYTE_ARRAY_OFFSET, packedSizes.length);
      InternalRow pack = new GenericInternalRow(new Object[] {Arrays.copyOf(data, used), packedSizes});
      InternalRow input = new GenericInternalRow(new Object[] {pack});
      return scala.collection.Iterator$.MODULE$.single(input);
    }
  }
}
