package pyspark.pravega.write;

import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import pyspark.pravega.internals.RowPack;
import pyspark.pravega.internals.WorkerRunner;
import pyspark.pravega.read.ColumnarReaderFactory;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Hands rows to the Python worker as they lie in memory, many in one value, instead of writing each value of each row
 * into an Arrow vector. The Python side takes them apart ({@code spark/unsafe_rows.py}). It runs Spark's Arrow
 * runner itself, as {@link ColumnarReaderFactory} does, and under the same conditions.
 */
final class PackedWriterFactory implements DataWriterFactory {
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

  private final class Writer extends WorkerWriter {
    private final int partition;

    Writer(int partition) {
      this.partition = partition;
    }

    @Override
    WriterCommitMessage written(Iterator<InternalRow> rows) {
      scala.collection.Iterator<ColumnarBatch> answers =
          WorkerRunner.run(
              source,
              function,
              new StructType().add("struct", RowPack.SCHEMA),
              timeZone,
              runnerConf,
              ColumnarReaderFactory.metrics(),
              CollectionConverters.asScala(new Packs(rows, schema)),
              partition,
              worker -> {});
      return onlyMessage(answers);
    }
  }

  /** Rows in packs; each is a batch of one value for the runner. */
  private static final class Packs implements Iterator<scala.collection.Iterator<InternalRow>> {
    private final Iterator<InternalRow> rows;
    private final RowPack pack;

    Packs(Iterator<InternalRow> rows, StructType schema) {
      this.rows = rows;
      pack = new RowPack(schema);
    }

    @Override
    public boolean hasNext() {
      return rows.hasNext();
    }

    @Override
    public scala.collection.Iterator<InternalRow> next() {
      while (!pack.isFull() && rows.hasNext()) {
        pack.add(rows.next());
      }
      return scala.collection.Iterator$.MODULE$.single(pack.take());
    }
  }
}
