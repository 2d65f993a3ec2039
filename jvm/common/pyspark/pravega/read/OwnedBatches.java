package pyspark.pravega.read;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VarBinaryVector;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.arrow.vector.util.TransferPair;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskCompletionListener;
import pyspark.pravega.bridge.Unchecked;

/**
 * Gives Spark the Arrow batches of a runner, each in vectors of its own.
 *
 * <p>A runner has one set of vectors and loads every batch into it. Spark closes the vectors of a batch that it has
 * used up, and a struct vector that was closed has lost its children: nothing can be loaded into it again. Operators
 * for Python functions keep several batches at a time. So the buffers of each batch move to new vectors, without a
 * copy.
 *
 * <p>A batch's vectors are closed by Spark, or here, because some operators never close them: when the first value of
 * a later batch is read, or when the task ends. Spark's operators give their rows on in the order in which they got the
 * batches, so nobody comes back to an earlier batch then.
 */
public final class OwnedBatches implements PartitionReader<ColumnarBatch> {
  /** The batches of all tasks of this process. */
  private static final BufferAllocator ALL_BATCHES =
      ArrowUtils.rootAllocator().newChildAllocator("pravega", 0, Long.MAX_VALUE);

  /** About how long a query waits for a new worker. */
  private static final long NEW_WORKER_MS = 1000;

  private static final ScheduledThreadPoolExecutor TIMERS = timers();

  private final scala.collection.Iterator<ColumnarBatch> received;
  private final int columns;
  private final BufferAllocator allocator;
  private final String mark;
  private final SharedBatches shared;
  private final TaskContext task;
  private final Deque<OwnedVector[]> open = new ArrayDeque<>();
  private boolean taskEnded;

  /** Held while the worker's answers are read: an operator may do so in a thread of its own. */
  private final ReentrantLock reading = new ReentrantLock();

  private volatile boolean over;
  private ColumnarBatch current;
  private long rows;

  /**
   * Batches that come as they are.
   *
   * @param received the runner's batches, each of one struct column in which the worker sends the batch's columns
   * @param columns how many of the struct's first fields are wanted
   * @param task the task that reads; when it ends, all that is still open is closed
   */
  OwnedBatches(scala.collection.Iterator<ColumnarBatch> received, int columns, TaskContext task) {
    this(received, columns, task, null);
  }

  /**
   * Batches that come as they are, or in messages about memory that is shared with the worker.
   *
   * @param received the runner's batches, each of one struct column
   * @param columns how many of the batches' first columns are wanted
   * @param task the task that reads; when it ends, all that is still open is closed
   * @param mark the name of the struct's only field where the batches are such messages; null when they never are
   */
  OwnedBatches(scala.collection.Iterator<ColumnarBatch> received, int columns, TaskContext task, String mark) {
    this.received = received;
    this.columns = columns;
    this.mark = mark;
    this.task = task;
    // The runner closes its own allocator behind its last batch, which Spark may not have used up by then.
    allocator = ALL_BATCHES.newChildAllocator("pravega batches", 0, Long.MAX_VALUE);
    shared = new SharedBatches(allocator, task);
    TaskCompletionListener ended = context -> closeAll();
    task.addTaskCompletionListener(ended);
  }

  private static ScheduledThreadPoolExecutor timers() {
    ThreadFactory daemons =
        run -> {
          Thread thread = new Thread(run, "pravega worker timer");
          thread.setDaemon(true);
          return thread;
        };
    ScheduledThreadPoolExecutor timers = new ScheduledThreadPoolExecutor(1, daemons);
    timers.setRemoveOnCancelPolicy(true);
    return timers;
  }

  /** How many bytes of Arrow memory the batches hold that tasks of this process have open. */
  public static long heldBytes() {
    return ALL_BATCHES.getAllocatedMemory();
  }

  /** How many Python workers' memory this process has mapped. */
  public static int sharedRings() {
    return SharedRing.mapped();
  }

  /** Whether tasks of this process ask their workers for shared memory: it can open the workers' files. */
  public static boolean sharesMemory() {
    return SharedRing.available();
  }

  @Override
  public boolean next() {
    reading.lock();
    try {
      return !over && readNext();
    } finally {
      reading.unlock();
    }
  }

  private boolean readNext() {
    current = null;
    while (current == null) {
      ByteBuffer note = nextPlaced();
      if (note != null) {
        synchronized (this) {
          if (taskEnded) {
            return false;
          }
          current = owned(shared.placed(note));
        }
        continue;
      }
      if (!received.hasNext()) {
        // A task may read many partitions, one after another, before it ends.
        shared.end();
        over = true;
        return false;
      }
      ColumnarBatch batch = received.next();
      StructVector struct = (StructVector) ((ArrowColumnVector) batch.column(0)).getValueVector();
      synchronized (this) {
        if (taskEnded) {
          // Spark may ask in another thread.
          return false;
        }
        current = isMessage(struct) ? told(struct) : moved(struct, batch.numRows());
      }
    }
    rows += current.numRows();
    return true;
  }

  private ByteBuffer nextPlaced() {
    try {
      ByteBuffer note = shared.nextPlaced();
      task.killTaskIfInterrupted();
      return note;
    } catch (IOException error) {
      task.killTaskIfInterrupted();
      synchronized (this) {
        if (taskEnded) {
          // Spark may ask in another thread.
          return null;
        }
      }
      throw Unchecked.sneak(error);
    }
  }

  /**
   * Has the worker come to its end where not all was read: Spark uses it again then. Another one is stopped, and the next
   * query has to wait for a new one. So it is waited for no longer than that takes: it may itself wait for a segment
   * store that is silent.
   *
   * @param stop the file that tells the worker; it isn't there, before and after
   * @param giveUp has reading end at once, as if the worker had died
   */
  void stopEarly(File stop, Runnable giveUp) throws IOException {
    if (over || !reading.tryLock()) {
      return;
    }
    Future<?> timer = TIMERS.schedule(giveUp, NEW_WORKER_MS, TimeUnit.MILLISECONDS);
    try {
      over = true;
      stop.createNewFile();
      shared.endTask();
      while (!task.isInterrupted() && received.hasNext()) {
        received.next();
      }
    } finally {
      timer.cancel(false);
      stop.delete();
      reading.unlock();
    }
  }

  /** How many rows there were so far. */
  long rows() {
    return rows;
  }

  /** How many bytes of batches came by messages about shared memory. */
  long sharedBytes() {
    return shared.bytes();
  }

  @Override
  public ColumnarBatch get() {
    return current;
  }

  @Override
  public void close() {
    // Spark may still read what it keeps of the batches. They are closed when the task ends.
  }

  private boolean isMessage(StructVector struct) {
    return mark != null && struct.size() == 1 && struct.getChildByOrdinal(0).getField().getName().equals(mark);
  }

  /** The batch that a message tells of; null when it tells of none. */
  private ColumnarBatch told(StructVector struct) {
    SharedBatches.Batch batch = shared.read((VarBinaryVector) struct.getChildByOrdinal(0));
    // An enclosed batch keeps what it needs of the message.
    struct.clear();
    return batch == null ? null : owned(batch);
  }

  private ColumnarBatch owned(SharedBatches.Batch batch) {
    OwnedVector[] vectors = new OwnedVector[columns];
    for (int i = 0; i < batch.columns().size(); i++) {
      if (i < columns) {
        vectors[i] = new OwnedVector(this, vectors, batch.columns().get(i));
      } else {
        batch.columns().get(i).close();
      }
    }
    open.addLast(vectors);
    return new ColumnarBatch(vectors, batch.rows());
  }

  /** The struct's columns in vectors of their own. */
  private ColumnarBatch moved(StructVector struct, int rows) {
    OwnedVector[] vectors = new OwnedVector[columns];
    for (int i = 0; i < columns; i++) {
      FieldVector vector = (FieldVector) struct.getChildByOrdinal(i);
      TransferPair transfer = vector.getTransferPair(vector.getField(), allocator);
      transfer.transfer();
      vectors[i] = new OwnedVector(this, vectors, transfer.getTo());
    }
    struct.clear();
    open.addLast(vectors);
    return new ColumnarBatch(vectors, rows);
  }

  /** Closes what lies before a batch of which the first value is read. */
  synchronized void closeEarlierThan(OwnedVector[] batch) {
    if (open.contains(batch)) {
      while (open.peekFirst() != batch) {
        close(open.removeFirst());
      }
    }
  }

  private synchronized void closeAll() {
    taskEnded = true;
    shared.endTask();
    open.forEach(OwnedBatches::close);
    open.clear();
    allocator.close();
  }

  private static void close(OwnedVector[] batch) {
    for (OwnedVector vector : batch) {
      vector.close();
    }
  }
}
