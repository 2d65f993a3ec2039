package pyspark.pravega;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/** Rows as they lie in memory, many in one value. {@code connector/write/unsafe_rows.py} takes them apart. */
final class RowPack {
  /** The columns of a pack. */
  static final StructType SCHEMA =
      new StructType().add("rows", DataTypes.BinaryType).add("sizes", DataTypes.BinaryType);

  private static final int FULL_BYTES = 1 << 20;

  private final UnsafeProjection projection;
  private byte[] data = new byte[64 << 10];
  private int[] sizes = new int[1024];
  private int used;
  private int count;

  /**
   * @param schema the rows' columns
   */
  RowPack(StructType schema) {
    projection = UnsafeProjection.create(schema);
  }

  boolean isEmpty() {
    return count == 0;
  }

  boolean isFull() {
    return used >= FULL_BYTES;
  }

  void add(InternalRow row) {
    UnsafeRow unsafe = row instanceof UnsafeRow same ? same : projection.apply(row);
    int size = unsafe.getSizeInBytes();
    if (used + size > data.length) {
      data = Arrays.copyOf(data, Math.max(Math.multiplyExact(data.length, 2), Math.addExact(used, size)));
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

  /** What was added, as a row with one struct of {@link #SCHEMA}; the pack is empty then. */
  InternalRow take() {
    byte[] packedSizes = new byte[count * Integer.BYTES];
    Platform.copyMemory(sizes, Platform.INT_ARRAY_OFFSET, packedSizes, Platform.BYTE_ARRAY_OFFSET, packedSizes.length);
    InternalRow pack = new GenericInternalRow(new Object[] {Arrays.copyOf(data, used), packedSizes});
    used = 0;
    count = 0;
    return new GenericInternalRow(new Object[] {pack});
  }
}
