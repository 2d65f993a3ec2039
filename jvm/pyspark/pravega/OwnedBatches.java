package pyspark.pravega;

import java.util.ArrayDeque;
import java.util.Deque;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.arrow.vector.util.TransferPair;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskCompletionListener;

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
final class OwnedBatches implements PartitionReader<ColumnarBatch> {
  private final scala.collection.Iterator<ColumnarBatch> received;
  private final int columns;
  private final BufferAllocator allocator;
  private final Deque<OwnedVector[]> open = new ArrayDeque<>();
  private boolean taskEnded;
  private ColumnarBatch current;

  /**
   * @param received the runner's batches, each of one struct column in which the worker sends the batch's columns
   * @param columns how many of the struct's first fields are wanted
   * @param task the task that reads; when it ends, all that is still open is closed
   */
  OwnedBatches(scala.collection.Iterator<ColumnarBatch> received, int columns, TaskContext task) {
    this.received = received;
    this.columns = columns;
    // The runner closes its own allocator behind its last batch, which Spark may not have used up by then.
    allocator = ArrowUtils.rootAllocator().newChildAllocator("pravega batches", 0, Long.MAX_VALUE);
    TaskCompletionListener ended = context -> closeAll();
    task.addTaskCompletionListener(ended);
  }

  @Override
  public boolean next() {
    if (!received.hasNext()) {
      return false;
    }
    ColumnarBatch batch = received.next();
    StructVector struct = (StructVector) ((ArrowColumnVector) batch.column(0)).getValueVector();
    OwnedVector[] vectors = take(struct);
    if (vectors == null) {
      return false;
    }
    current = new ColumnarBatch(vectors, batch.numRows());
    return true;
  }

  @Override
  public ColumnarBatch get() {
    return current;
  }

  @Override
  public void close() {
    // Spark may still read what it keeps of the batches. They are closed when the task ends.
  }

  /** The struct's columns in vectors of their own, or null when the task has ended: Spark may ask in another thread. */
  private synchronized OwnedVector[] take(StructVector struct) {
    if (taskEnded) {
      return null;
    }
    OwnedVector[] vectors = new OwnedVector[columns];
    for (int i = 0; i < columns; i++) {
      FieldVector vector = (FieldVector) struct.getChildByOrdinal(i);
      TransferPair transfer = vector.getTransferPair(vector.getField(), allocator);
      transfer.transfer();
      vectors[i] = new OwnedVector(this, vectors, transfer.getTo());
    }
    struct.clear();
    open.addLast(vectors);
    return vectors;
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
