package pyspark.pravega.write;

import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** A task's writer whose rows are all written by one call of a Python worker, which answers with one message. */
abstract class WorkerWriter implements DataWriter<InternalRow> {
  private WriterCommitMessage message;

  /** Writes rows; gives the worker's message. */
  abstract WriterCommitMessage written(Iterator<InternalRow> rows);

  /** The message with which a Python writer ends. */
  static WriterCommitMessage onlyMessage(scala.collection.Iterator<ColumnarBatch> answers) {
    WriterCommitMessage message = null;
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
    return message;
  }

  @Override
  public final void writeAll(Iterator<InternalRow> rows) {
    message = written(rows);
  }

  @Override
  public final void write(InternalRow row) {
    throw new UnsupportedOperationException("rows are written all together");
  }

  @Override
  public final WriterCommitMessage commit() {
    return message;
  }

  @Override
  public final void abort() {
    // The Python side does it when its input ends with an error.
  }

  @Override
  public final void close() {
    // The runner frees its buffers and its worker when the task ends.
  }
}
