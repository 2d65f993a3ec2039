package pyspark.pravega;

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
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.ForeignAllocation;
import org.apache.arrow.memory.util.MemoryUtil;
import org.apache.spark.storage.StorageUtils;

/**
 * The memory that a Python worker shares with one task, mapped here: a ring of buffers that the worker fills with
 * batches. The worker's side, and what is said between the two, is in {@code pyspark_pravega/connector/handover.py}.
 *
 * <p>The memory stays mapped until the task has ended and nothing that was read from it is open any more, and a second
 * longer.
 */
final class SharedRing {
  private static final int ASK = 255;
  private static final int DONE = 254;
  private static final int TOKEN_BYTES = 16;
  private static final int NOTE_BYTES = 24;

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
  private final ByteBuffer note = ByteBuffer.allocateDirect(NOTE_BYTES).order(ByteOrder.nativeOrder());
  private boolean notesEnded;
  private int lent;
  private boolean ended;
  private boolean readToEnd;

  private SharedRing(MappedByteBuffer memory, OutputStream replies, FileChannel notes) {
    this.memory = memory;
    this.replies = replies;
    this.notes = notes;
  }

  /**
   * Maps what a worker offers.
   *
   * @param offer the worker's process id, its numbers of the memory file and of the pipes of replies and notes, the
   *     file's size, and its first bytes
   * @return null where this process can't open the worker's files: the worker goes on without them
   */
  static SharedRing open(ByteBuffer offer) {
    String files = "/proc/" + offer.getInt() + "/fd/";
    int file = offer.getInt();
    int pipe = offer.getInt();
    int notesPipe = offer.getInt();
    long size = offer.getLong();
    byte[] token = new byte[TOKEN_BYTES];
    offer.get(token);
    MappedByteBuffer memory = null;
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
            return new SharedRing(memory, new FileOutputStream(files + pipe), notes);
          } catch (IOException error) {
            notes.close();
          }
        }
      }
    } catch (IOException | RuntimeException error) {
      // Another machine's, another user's, or one behind a border that this process can't look over.
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

  /**
   * The task has ended: the worker is told so, and gets no buffer back.
   *
   * @param whole whether the task has read all that the worker had, and nobody reads on: then the worker may fill the
   *     same memory for its next task
   */
  synchronized void end(boolean whole) {
    if (!ended) {
      ended = true;
      readToEnd = whole;
      try {
        notes.close();
        if (!whole) {
          replies.close();
        }
      } catch (IOException error) {
        // The worker is gone.
      }
      endUnused();
    }
  }

  private void endUnused() {
    if (ended && lent == 0) {
      if (readToEnd) {
        reply(DONE);
        try {
          replies.close();
        } catch (IOException error) {
          // The worker is gone.
        }
      }
      UNMAPPER.schedule(() -> StorageUtils.dispose(memory), UNMAPPED_LATER_MS, TimeUnit.MILLISECONDS);
    }
  }

  private void reply(int what) {
    try {
      replies.write(what);
    } catch (IOException error) {
      // The worker is gone; its socket tells that.
    }
  }
}
