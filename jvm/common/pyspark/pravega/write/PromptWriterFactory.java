package pyspark.pravega.write;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskCompletionListener;
import pyspark.pravega.bridge.Unchecked;
import pyspark.pravega.internals.PromptRunner;
import pyspark.pravega.internals.RowPack;
import pyspark.pravega.internals.TaskEnd;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Hands each row to the Python worker as soon as it is there, for real-time queries. While the worker is busy with some
 * rows the next ones are collected, so a burst costs no more than it would in batches.
 */
final class PromptWriterFactory implements DataWriterFactory {
  private static final int MOST_ROWS = 10_000;
  private static final int END_MS = 10_000;

  private final PromptRunner.Call call;
  private final StructType schema;
  private final boolean packed;

  /**
   * @param source Spark's handle for Python functions
   * @param function the pickled write function
   * @param schema the rows' columns
   * @param packed whether the function expects packed rows
   */
  PromptWriterFactory(UserDefinedPythonDataSource source, byte[] function, StructType schema, boolean packed) {
    call = new PromptRunner.Call(source, function, packed ? RowPack.SCHEMA : schema);
    this.schema = schema;
    this.packed = packed;
  }

  @Override
  public DataWriter<InternalRow> createWriter(int partition, long task) {
    return new Writer(partition);
  }

  private final class Writer extends WorkerWriter {
    private final int partition;
    private WriterCommitMessage message;

    Writer(int partition) {
      this.partition = partition;
    }

    @Override
    WriterCommitMessage written(Iterator<InternalRow> rows) {
      Handover handover = new Handover(packed ? new Packed(schema) : new Rows());
      scala.collection.Iterator<ColumnarBatch> answers = call.run(CollectionConverters.asScala(handover), partition);
      // It waits for the worker's one message, and hears of it when the worker fails before.
      Thread listener =
          new Thread(
              () -> {
                try {
                  message = onlyMessage(answers);
                  handover.stop(null);
                } catch (Throwable error) {
                  handover.stop(error);
                }
              },
              "pravega writer " + TaskContext.get().taskAttemptId());
      listener.setDaemon(true);
      // A task that fails, or is killed, leaves nobody waiting. Called before the runner's listener, which stops the
      // thread that writes the worker's input.
      TaskCompletionListener ended = task -> handover.end(listener);
      TaskEnd.before(ended);
      listener.start();
      try {
        while (rows.hasNext()) {
          handover.add(rows.next());
        }
        handover.end();
        listener.join();
        handover.check();
        return message;
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
        throw new IllegalStateException("the task was interrupted", error);
      }
    }
  }

  /** Rows that wait for the worker. */
  private interface Waiting {
    boolean isEmpty();

    boolean isFull();

    void add(InternalRow row);

    /** All of them, as a batch for the runner; none waits then. */
    scala.collection.Iterator<InternalRow> take();
  }

  private static final class Packed implements Waiting {
    private final RowPack pack;

    Packed(StructType schema) {
      pack = new RowPack(schema);
    }

    @Override
    public boolean isEmpty() {
      return pack.isEmpty();
    }

    @Override
    public boolean isFull() {
      return pack.isFull();
    }

    @Override
    public void add(InternalRow row) {
      pack.add(row);
    }

    @Override
    public scala.collection.Iterator<InternalRow> take() {
      return scala.collection.Iterator$.MODULE$.single(pack.take());
    }
  }

  private static final class Rows implements Waiting {
    private List<InternalRow> rows = new ArrayList<>();

    @Override
    public boolean isEmpty() {
      return rows.isEmpty();
    }

    @Override
    public boolean isFull() {
      return rows.size() >= MOST_ROWS;
    }

    @Override
    public void add(InternalRow row) {
      rows.add(new GenericInternalRow(new Object[] {row.copy()}));
    }

    @Override
    public scala.collection.Iterator<InternalRow> take() {
      List<InternalRow> taken = rows;
      rows = new ArrayList<>();
      return CollectionConverters.asScala(taken.iterator());
    }
  }

  /** From the task's thread, which adds rows, to the runner's, which takes all that wait. */
  private static final class Handover implements Iterator<scala.collection.Iterator<InternalRow>> {
    private final Waiting waiting;
    private boolean ended;
    private boolean stopped;
    private Throwable error;

    Handover(Waiting waiting) {
      this.waiting = waiting;
    }

    synchronized void add(InternalRow row) throws InterruptedException {
      while (waiting.isFull() && !stopped) {
        wait();
      }
      check();
      if (stopped) {
        throw new IllegalStateException("the Python writer has ended before its rows did");
      }
      waiting.add(row);
      notifyAll();
    }

    /** No more rows come. */
    synchronized void end() {
      ended = true;
      notifyAll();
    }

    /** No more rows come; waits until the worker has answered. */
    void end(Thread listener) {
      end();
      try {
        listener.join(END_MS);
      } catch (InterruptedException interruption) {
        Thread.currentThread().interrupt();
      }
    }

    /** The worker takes no more. */
    synchronized void stop(Throwable why) {
      stopped = true;
      error = why;
      notifyAll();
    }

    /** Throws what the worker has failed with. */
    synchronized void check() {
      if (error != null) {
        throw Unchecked.sneak(error);
      }
    }

    @Override
    public synchronized boolean hasNext() {
      try {
        while (waiting.isEmpty() && !ended && !stopped) {
          wait();
        }
      } catch (InterruptedException interruption) {
        Thread.currentThread().interrupt();
        return false;
      }
      return !waiting.isEmpty();
    }

    @Override
    public synchronized scala.collection.Iterator<InternalRow> next() {
      scala.collection.Iterator<InternalRow> taken = waiting.take();
      notifyAll();
      return taken;
    }
  }
}
