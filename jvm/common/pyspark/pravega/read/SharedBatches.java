package pyspark.pravega.read;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VarBinaryVector;
import org.apache.arrow.vector.VectorLoader;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.message.ArrowFieldNode;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.TaskContext;
import pyspark.pravega.bridge.Unchecked;

/**
 * Reads a worker's messages, and its notes about batches in shared memory ({@code
 * pyspark_pravega/connector/handover.py} lists them).
 */
final class SharedBatches {
  private static final int ENCLOSED = 0;
  private static final int PLACED = 1;
  private static final int OFFER = 2;
  private static final int LAID = 3;
  private static final int ENCLOSED_BEGIN = 8;
  private static final int HEAD_BYTES = 8;

  private final BufferAllocator allocator;
  private final TaskContext task;
  private SharedRing ring;
  private Schema schema;
  private long bytes;

  /**
   * @param allocator counts the batches' memory
   * @param task the task that reads them
   */
  SharedBatches(BufferAllocator allocator, TaskContext task) {
    this.allocator = allocator;
    this.task = task;
  }

  /**
   * Waits until the next batch is there, if the worker notes its batches.
   *
   * @return a note about a batch in shared memory; null when the next batch comes in a message
   * @throws IOException when the thread is interrupted meanwhile, or the task has ended
   */
  ByteBuffer nextPlaced() throws IOException {
    ByteBuffer note = ring == null ? null : ring.nextNote();
    return note == null || note.get(0) == ENCLOSED ? null : note;
  }

  /**
   * Reads a batch in shared memory.
   *
   * @param note what the worker has noted about it
   * @return the batch's columns, which are the caller's to close, and its rows
   */
  Batch placed(ByteBuffer note) {
    long size = note.getLong(16);
    ArrowBuf memory = ring.lend(allocator, note.getInt(4), note.getLong(8), size);
    return note.get(0) == LAID ? laid(memory, size) : load(memory, 0, size);
  }

  /** How many bytes of batches were in the messages or in shared memory. */
  long bytes() {
    return bytes;
  }

  /** There are no more batches; those that are open can still be read. */
  void end() {
    if (ring != null) {
      ring.end();
    }
  }

  /** The task has ended, and its batches are about to be closed. */
  void endTask() {
    if (ring != null) {
      ring.endTask();
    }
  }

  /**
   * Reads a message.
   *
   * @param message its text, in a column of one row; it may be freed afterwards
   * @return the batch's columns, which are the caller's to close, and its rows; null when the message holds no batch
   */
  Batch read(VarBinaryVector message) {
    ArrowBuf data = message.getDataBuffer();
    int length = message.getValueLength(0);
    ByteBuffer text = data.nioBuffer(message.getStartOffset(0), length).order(ByteOrder.nativeOrder());
    switch (text.get(0)) {
      case OFFER -> {
        ring = SharedRing.open(text.position(4), task);
        return null;
      }
      case ENCLOSED -> {
        data.getReferenceManager().retain();
        return load(data, message.getStartOffset(0) + ENCLOSED_BEGIN, length - ENCLOSED_BEGIN);
      }
      default -> throw new IllegalStateException("a Python worker sent a message of kind " + text.get(0));
    }
  }

  /**
   * Loads an Arrow stream of one batch, without a copy.
   *
   * @param stream memory that holds it; one reference to it is used up
   * @param begin where the stream begins there
   * @param size of the stream in bytes
   */
  private Batch load(ArrowBuf stream, long begin, long size) {
    bytes += size;
    VectorSchemaRoot root = null;
    try {
      ByteBuffer text = stream.nioBuffer(begin, Math.toIntExact(size)).order(ByteOrder.LITTLE_ENDIAN);
      Message described = next(text);
      if (schema == null) {
        schema = MessageSerializer.deserializeSchema(described);
      }
      Message batch = next(text);
      ArrowBuf body = stream.slice(begin + text.position(), batch.bodyLength());
      body.getReferenceManager().retain();
      root = VectorSchemaRoot.create(schema, allocator);
      try (ArrowRecordBatch loaded = MessageSerializer.deserializeRecordBatch(batch, body)) {
        new VectorLoader(root).load(loaded);
      }
      return new Batch(new ArrayList<>(root.getFieldVectors()), root.getRowCount());
    } catch (IOException | RuntimeException error) {
      if (root != null) {
        root.close();
      }
      throw Unchecked.sneak(error);
    } finally {
      stream.getReferenceManager().release();
    }
  }

  /**
   * Loads a batch that the worker's native module has laid into memory ({@code native/src/layout.rs}), without a copy.
   *
   * @param memory that holds it; one reference to it is used up
   * @param size of it in bytes
   */
  private Batch laid(ArrowBuf memory, long size) {
    bytes += size;
    VectorSchemaRoot root = null;
    try {
      ByteBuffer table = memory.nioBuffer(0, Math.toIntExact(size)).order(ByteOrder.nativeOrder());
      int rows = Math.toIntExact(table.getLong());
      int nodeCount = table.getInt();
      int pieceCount = table.getInt();
      List<ArrowFieldNode> nodes = new ArrayList<>(nodeCount);
      for (int i = 0; i < nodeCount; i++) {
        nodes.add(new ArrowFieldNode(table.getLong(), table.getLong()));
      }
      List<ArrowBuf> pieces = new ArrayList<>(pieceCount);
      for (int i = 0; i < pieceCount; i++) {
        pieces.add(memory.slice(table.getLong(), table.getLong()));
      }
      root = VectorSchemaRoot.create(schema, allocator);
      try (ArrowRecordBatch loaded = new ArrowRecordBatch(rows, nodes, pieces)) {
        new VectorLoader(root).load(loaded);
      }
      return new Batch(new ArrayList<>(root.getFieldVectors()), rows);
    } catch (RuntimeException error) {
      if (root != null) {
        root.close();
      }
      throw error;
    } finally {
      memory.getReferenceManager().release();
    }
  }

  /** The stream's message at the buffer's place, which moves behind its head. */
  private static Message next(ByteBuffer stream) {
    stream.position(stream.position() + HEAD_BYTES / 2);
    int length = stream.getInt();
    ByteBuffer head = stream.slice(stream.position(), length).order(ByteOrder.LITTLE_ENDIAN);
    stream.position(stream.position() + length);
    return Message.getRootAsMessage(head);
  }

  /**
   * The columns of a batch, in vectors of its own.
   *
   * @param columns of which each has to be closed
   * @param rows how many there are
   */
  record Batch(List<FieldVector> columns, int rows) {}
}
