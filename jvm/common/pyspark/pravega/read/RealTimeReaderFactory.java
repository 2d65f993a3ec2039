package pyspark.pravega.read;

import java.io.IOException;
import java.util.Arrays;
import java.util.Iterator;
import java.util.TreeMap;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskCompletionListener;
import pyspark.pravega.bridge.Unchecked;
import pyspark.pravega.internals.PromptRunner;
import pyspark.pravega.internals.TaskEnd;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Follows segments in the tasks of a real-time batch: the Python worker gives rows as they come, a thread fills a queue
 * with them, and Spark takes them from there, row by row, until the batch's time is over. The worker ends when its input
 * does.
 */
final class RealTimeReaderFactory implements PartitionReaderFactory {
  private static final int BATCHES_AHEAD = 4;
  private static final int PAUSE_MS = 100;
  private static final int END_MS = 10_000;

  /** In place of an offset, as `connector/stream/following.py` has it: the worker tells an error next. */
  private static final int FAILS = -2;

  private final PromptRunner.Call call;
  private final int columns;
  private final int columnsOfBatches;

  /**
   * @param source Spark's handle for Python functions
   * @param function the pickled function that follows
   * @param columns how many columns of its batches the query wants: the first ones
   * @param schema the columns of its batches; the last three are each row's offset
   */
  RealTimeReaderFactory(UserDefinedPythonDataSource source, byte[] function, int columns, StructType schema) {
    call = new PromptRunner.Call(source, function, UserDefinedPythonDataSource.readInputSchema());
    this.columns = columns;
    columnsOfBatches = schema.size();
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    return new Reader((Followed) partition);
  }

  /**
   * What one task follows.
   *
   * @param index the partition's number
   * @param pickled as the Python worker takes it
   * @param start segment id to offset
   */
  record Followed(int index, byte[] pickled, TreeMap<Long, Long> start) implements InputPartition {}

  /**
   * Where a task has ended.
   *
   * @param offsets segment id to offset
   */
  record SegmentOffsets(TreeMap<Long, Long> offsets) implements PartitionOffset {}

  private final class Reader extends TimedReader {
    private final TreeMap<Long, Long> offsets;
    private final BlockingQueue<Object> arrivals = new ArrayBlockingQueue<>(BATCHES_AHEAD);
    private final Input input;
    private final OwnedBatches received;
    private final scala.collection.Iterator<ColumnarBatch> answers;
    private final Thread filler;
    private ColumnarBatch rows;
    private ColumnarBatch offsetColumns;
    private int next;
    private boolean fails;

    Reader(Followed partition) {
      offsets = new TreeMap<>(partition.start());
      input = new Input(partition.pickled());
      answers = call.run(CollectionConverters.asScala(input), partition.index());
      received = new OwnedBatches(answers, columnsOfBatches, TaskContext.get());
      filler = new Thread(this::fill, "pravega real-time " + TaskContext.get().taskAttemptId());
      filler.setDaemon(true);
      // Listeners are called in the reverse of their order: this one before the runner's, which stops the thread that
      // writes the worker's input. Stopped before it has written the end, the worker would wait for it.
      TaskCompletionListener ended = task -> end();
      TaskEnd.before(ended);
      filler.start();
    }

    @Override
    boolean nextWithin(long milliseconds) throws IOException {
      long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(milliseconds);
      try {
        while (!advance()) {
          long waitNs = fails ? TimeUnit.MILLISECONDS.toNanos(END_MS) : deadline - System.nanoTime();
          Object arrived = arrivals.poll(waitNs, TimeUnit.NANOSECONDS);
          if (arrived instanceof Failure failure) {
            throw Unchecked.sneak(failure.error());
          }
          if (!(arrived instanceof ColumnarBatch batch)) {
            return false;
          }
          take(batch);
        }
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
        // A query that is stopped kills its tasks: Spark tells of that in one line.
        TaskContext.get().killTaskIfInterrupted();
        throw new IOException("the task was interrupted", error);
      }
      return true;
    }

    /** Goes to the next row of the batch that is read; what isn't a row only tells of an offset. */
    private boolean advance() {
      while (rows != null && next < rows.numRows()) {
        int row = next++;
        long segment = offsetColumns.column(0).getLong(row);
        long offset = offsetColumns.column(1).getLong(row);
        if (offset == FAILS) {
          fails = true;
          input.end();
        } else if (offset < 0) {
          offsets.remove(segment);
        } else {
          offsets.put(segment, offset);
        }
        if (offsetColumns.column(2).getBoolean(row)) {
          return true;
        }
      }
      return false;
    }

    private void take(ColumnarBatch batch) {
      ColumnVector[] all = new ColumnVector[columnsOfBatches];
      for (int i = 0; i < all.length; i++) {
        all[i] = batch.column(i);
      }
      rows = new ColumnarBatch(Arrays.copyOf(all, columns), batch.numRows());
      offsetColumns = new ColumnarBatch(Arrays.copyOfRange(all, all.length - 3, all.length), batch.numRows());
      next = 0;
    }

    @Override
    public InternalRow get() {
      return rows.getRow(next - 1);
    }

    @Override
    public PartitionOffset getOffset() {
      // Spark asks when it wants no more rows. The worker comes to its end while the query writes its last ones.
      input.end();
      return new SegmentOffsets(new TreeMap<>(offsets));
    }

    @Override
    public boolean next() {
      throw new UnsupportedOperationException("rows are waited for with a time-out");
    }

    @Override
    public void close() {
      input.end();
    }

    private void fill() {
      Object last = Boolean.TRUE;
      try {
        while (!input.ended() && received.next()) {
          put(received.get());
        }
        // The worker is used again when all that it gives was read.
        while (answers.hasNext()) {
          answers.next();
        }
      } catch (Throwable error) {
        last = new Failure(error);
      }
      put(last);
    }

    private void put(Object arrived) {
      try {
        while (!arrivals.offer(arrived, PAUSE_MS, TimeUnit.MILLISECONDS)) {
          if (input.ended()) {
            return;
          }
        }
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
      }
    }

    private void end() {
      input.end();
      try {
        filler.join(END_MS);
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private record Failure(Throwable error) {}

  /** The worker's input: the partition, and an end when the batch is over. */
  private static final class Input implements Iterator<scala.collection.Iterator<InternalRow>> {
    private final byte[] partition;
    private final CountDownLatch over = new CountDownLatch(1);
    private boolean given;

    Input(byte[] partition) {
      this.partition = partition;
    }

    void end() {
      over.countDown();
    }

    boolean ended() {
      return over.getCount() == 0;
    }

    @Override
    public boolean hasNext() {
      if (given) {
        try {
          over.await();
        } catch (InterruptedException error) {
          Thread.currentThread().interrupt();
        }
      }
      return !given;
    }

    @Override
    public scala.collection.Iterator<InternalRow> next() {
      given = true;
      InternalRow argument = new GenericInternalRow(new Object[] {partition});
      InternalRow row = new GenericInternalRow(new Object[] {argument});
      return scala.collection.Iterator$.MODULE$.single(row);
    }
  }
}
