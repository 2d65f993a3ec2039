package pyspark.pravega.internals;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/** Rows as they lie in memory, many in one value. {@code spark/unsafe_rows.py} takes them apart. */
public final class RowPack {
  /** The columns of a pack. */
  public static final StructType SCHEMA =
      new StructType().add("rows", DataTypes.BinaryType).add("sizes", DataTypes.BinaryType);

  private static final int LEAST_FULL_BYTES = 1 << 20;
  private static final int MOST_FULL_BYTES = 4 << 20;
  /** Each pack costs something for each column, however few rows it has. */
  private static final int BYTES_PER_COLUMN = 20 << 10;

  private final UnsafeProjection projection;
  private final int fullBytes;
  /** A full pack, and the small row that makes it full. */
  private final int room;
  private byte[] data = new byte[64 << 10];
  /** What was taken last. */
  private byte[] taken = new byte[0];
  private int[] sizes = new int[1024];
  private int used;
  private int count;

  /**
   * @param schema the rows' columns
   */
  public RowPack(StructType schema) {
    projection = UnsafeProjection.create(schema);
    fullBytes = Math.min(MOST_FULL_BYTES, Math.max(LEAST_FULL_BYTES, schema.length() * BYTES_PER_COLUMN));
    room = fullBytes + (16 << 10);
  }

  public boolean isEmpty() {
    return count == 0;
  }

  public boolean isFull() {
    return used >= fullBytes;
  }

  public void add(InternalRow row) {
    UnsafeRow unsafe = row instanceof UnsafeRow same ? same : projection.apply(row);
    int size = unsafe.getSizeInBytes();
    if (used + size > data.length) {
      data = Arrays.copyOf(data, Math.max(Math.min(data.length * 2, room), Math.addExact(used, size)));
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

  /**
   * What was added, as a row with one struct of {@link #SCHEMA}; the pack is empty then. The row may be used until the
   * next one is taken: a pack that is about full is handed over as it is, with room behind its rows.
   */
  public InternalRow take() {
    byte[] packedSizes = new byte[count * Integer.BYTES];
    Platform.copyMemory(sizes, Platform.INT_ARRAY_OFFSET, packedSizes, Platform.BYTE_ARRAY_OFFSET, packedSizes.length);
    byte[] rows;
    if (used >= data.length - data.length / 16) {
      rows = data;
      data = taken.length == rows.length ? taken : new byte[rows.length];
      taken = rows;
    } else {
      rows = Arrays.copyOf(data, used);
    }
    InternalRow pack = new GenericInternalRow(new Object[] {rows, packedSizes});
    used = 0;
    count = 0;
    return new GenericInternalRow(new Object[] {pack});
  }
}
