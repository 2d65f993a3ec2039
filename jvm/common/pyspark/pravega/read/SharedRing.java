package pyspark.pravega.read;

import java.io.Closeable;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.ForeignAllocation;
import org.apache.arrow.memory.util.MemoryUtil;
import org.apache.spark.TaskContext;
import org.apache.spark.storage.StorageUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The memory that a Python worker shares with one task, mapped here: a ring of buffers that the worker fills with
 * batches. The worker's side, and what is said between the two, is in {@code pyspark_pravega/connector/handover.py}.
 *
 * <p>The memory stays mapped until there are no more batches, or the task has ended, and nothing that was read from it is
 * open any more. What the task's end has closed stays mapped for another second.
 */
final class SharedRing {
  private static final int ASK = 255;
  private static final int DONE = 254;
  private static final int TOKEN_BYTES = 16;
  private static final int NOTE_BYTES = 24;

  /** After so many offers in a row that couldn't be taken this process asks for none any more. */
  private static final int MOST_REFUSED = 4;

  private static final Logger LOG = LoggerFactory.getLogger(SharedRing.class);

  private static final AtomicInteger REFUSED = new AtomicInteger();
  private static final AtomicInteger MAPPED = new AtomicInteger();

  /**
   * Memory that was read stays mapped for so long: a task that is killed may have threads, as that of a script, which are
   * in the middle of a value when its batches are closed.
   */
  private static final int UNMAPPED_LATER_MS = 1000;

  private static final ScheduledExecutorService UNMAPPER =
      Executors.newSingleThreadScheduledExecutor(
          work -> {
            Thread thread = new Thread(work, "pravega shared memory");
            thread.setDaemon(true);
            return thread;
          });

  private final MappedByteBuffer memory;
  private final OutputStream replies;
  private final FileChannel notes;
  private final TaskContext task;
  private final ByteBuffer note = ByteBuffer.allocateDirect(NOTE_BYTES).order(ByteOrder.nativeOrder());
  private volatile boolean notesEnded;
  private int lent;
  private boolean ended;
  private boolean abandoned;

  private SharedRing(MappedByteBuffer memory, OutputStream replies, FileChannel notes, TaskContext task) {
    this.memory = memory;
    this.task = task;
    this.replies = replies;
    this.notes = notes;
  }

  /**
   * Whether workers are asked for offers: not where this process can't open their files, for which each worker would wait
   * half a second.
   */
  static boolean available() {
    return REFUSED.get() < MOST_REFUSED;
  }

  /** How many rings this process has mapped. */
  static int mapped() {
    return MAPPED.get();
  }

  /**
   * Maps what a worker offers.
   *
   * @param offer the worker's process id, its numbers of the memory file and of the pipes of replies and notes, the
   *     file's size, and its first bytes
   * @param task the task that reads
   * @return null where this process can't open the worker's files: the worker goes on without them
   */
  static SharedRing open(ByteBuffer offer, TaskContext task) {
    String files = "/proc/" + offer.getInt() + "/fd/";
    int file = offer.getInt();
    int pipe = offer.getInt();
    int notesPipe = offer.getInt();
    long size = offer.getLong();
    byte[] token = new byte[TOKEN_BYTES];
    offer.get(token);
    MappedByteBuffer memory = null;
    String why = "they aren't what the worker has written";
    // Written to, because Arrow's vectors may be; a page that is only mapped for reading would end the JVM then.
    try (RandomAccessFile opened = new RandomAccessFile(files + file, "rw")) {
      if (opened.length() == size) {
        memory = opened.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, size);
        byte[] first = new byte[TOKEN_BYTES];
        memory.get(0, first);
        if (Arrays.equals(first, token)) {
          FileChannel notes = FileChannel.open(Path.of(files + notesPipe), StandardOpenOption.READ);
          try {
            // No channel: that would be closed when the task's thread is interrupted.
            SharedRing ring = new SharedRing(memory, new FileOutputStream(files + pipe), notes, task);
            REFUSED.set(0);
            MAPPED.incrementAndGet();
            return ring;
          } catch (IOException error) {
            notes.close();
            why = error.toString();
          }
        }
      }
    } catch (IOException | RuntimeException error) {
      // Another machine's, another user's, or one behind a border that this process can't look over.
      why = error.toString();
    }
    if (REFUSED.incrementAndGet() == MOST_REFUSED) {
      LOG.warn(
          "This process can't open files of its Python workers ({}). From now on their batches come by sockets, which"
              + " takes more CPU and gives the same rows. Set the option 'shared-memory' to 0 to begin with sockets.",
          why);
    }
    if (memory != null) {
      StorageUtils.dispose(memory);
    }
    return null;
  }

  /**
   * Waits for the worker's note about the next batch, and tells it that.
   *
   * @return the note; null when the worker writes none any more, so that everything comes in messages
   * @throws IOException when the thread is interrupted meanwhile, or the task has ended
   */
  ByteBuffer nextNote() throws IOException {
    if (!notesEnded) {
      reply(ASK);
      note.clear();
      while (note.hasRemaining() && !notesEnded) {
        notesEnded = notes.read(note) < 0;
      }
    }
    return notesEnded ? null : note.flip();
  }

  /**
   * A batch that the worker has put into a buffer.
   *
   * @param allocator counts its memory
   * @param buffer the buffer's number; the worker has it back when the result is released
   * @param offset where the batch begins in the ring, in bytes
   * @param length of the batch in bytes
   */
  synchronized ArrowBuf lend(BufferAllocator allocator, int buffer, long offset, long length) {
    if (ended || offset < 0 || length < 0 || offset + length > memory.capacity()) {
      throw new IllegalStateException("there is no batch at " + offset + " of the memory shared with a Python worker");
    }
    ArrowBuf lentOut =
        allocator.wrapForeignAllocation(
            new ForeignAllocation(length, MemoryUtil.getByteBufferAddress(memory) + offset) {
              @Override
              protected void release0() {
                takeBack(buffer);
              }
            });
    lent++;
    return lentOut;
  }

  private synchronized void takeBack(int buffer) {
    lent--;
    if (!ended) {
      reply(buffer);
    }
    endUnused();
  }

  /** There are no more batches: the worker gets no buffer back. What is lent stays as it is. */
  synchronized void end() {
    if (!ended) {
      ended = true;
      notesEnded = true;
      close(notes);
      endUnused();
    }
  }

  /** The task has ended, and all that is lent is about to be closed. */
  synchronized void endTask() {
    if (!ended) {
      abandoned = true;
      close(replies);
      end();
    }
  }

  private void endUnused() {
    if (ended && lent == 0) {
      boolean stopped = abandoned || task.isInterrupted() || task.isFailed();
      if (!stopped) {
        // All is read, and nobody reads on: the worker may fill the same memory for its next task.
        reply(DONE);
      }
      close(replies);
      int delay = stopped || task.isCompleted() ? UNMAPPED_LATER_MS : 0;
      UNMAPPER.schedule(this::unmap, delay, TimeUnit.MILLISECONDS);
    }
  }

  private static void close(Closeable file) {
    try {
      file.close();
    } catch (IOException error) {
      // The worker is gone.
    }
  }

  private void unmap() {
    StorageUtils.dispose(memory);
    MAPPED.decrementAndGet();
  }

  private void reply(int what) {
    try {
      replies.write(what);
    } catch (IOException error) {
      // The worker is gone; its socket tells that.
    }
  }
}
