package pyspark.pravega.read;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.vector.DecimalVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.ValueVector;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.arrow.vector.complex.MapVector;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.arrow.vector.types.Types.MinorType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.CalendarInterval;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of one batch of {@link OwnedBatches}, or a part of such a column. It hears when Spark begins to read its
 * values. Operators that pass a column on as a whole take its Arrow vector and don't read values.
 *
 * <p>Values of the usual types are read from memory where they lie. Arrow's vectors would check for each value that its
 * memory isn't freed, that its row is there and that it isn't null; here one flag tells whether the batch is open, and
 * Spark asks for rows that are there.
 */
final class OwnedVector extends WatchedVector {
  /** How values lie in memory. */
  private enum Layout {
    BITS,
    BYTES,
    SHORTS,
    INTS,
    LONGS,
    FLOATS,
    DOUBLES,
    DECIMALS,
    TEXTS,
    BYTE_STRINGS,
    LISTS,
    MAPS,
    STRUCTS,
    /** As Spark's own class reads them. */
    OTHER
  }

  /**
   * Another thread may close the batch while an operator's loop reads it. An opaque access is made each time, and unlike
   * a volatile one it lets what never changes be fetched once for the whole loop.
   */
  private static final VarHandle READING = reading();

  private final OwnedBatches batches;
  private final OwnedVector[] batch;
  private final Layout layout;

  /** Addresses; that of bits which tell the values that aren't null is 0 where no value is null. */
  private final long valid;

  private final long data;
  private final long offsets;

  /** Of a struct its fields, of a list its items, of a map keys and values. */
  private final OwnedVector[] parts;

  /** Looked at for each value through {@link #READING}. */
  private boolean reading;

  private boolean closed;

  /**
   * @param batches all batches of the task
   * @param batch the columns of this one's batch
   * @param vector the values, which are this column's to free
   */
  OwnedVector(OwnedBatches batches, OwnedVector[] batch, ValueVector vector) {
    super(vector);
    this.batches = batches;
    this.batch = batch;
    FieldVector values = (FieldVector) vector;
    layout = layout(values.getMinorType());
    boolean known = layout != Layout.OTHER && values.getValueCount() > 0;
    valid = known && values.getNullCount() > 0 ? values.getValidityBufferAddress() : 0;
    parts = parts(values);
    boolean ragged = known && (layout == Layout.TEXTS || layout == Layout.BYTE_STRINGS);
    boolean many = known && (layout == Layout.LISTS || layout == Layout.MAPS);
    offsets = ragged || many ? values.getOffsetBufferAddress() : 0;
    data = known && !many && layout != Layout.STRUCTS ? values.getDataBufferAddress() : 0;
  }

  private static VarHandle reading() {
    try {
      return MethodHandles.lookup().findVarHandle(OwnedVector.class, "reading", boolean.class);
    } catch (ReflectiveOperationException error) {
      throw new ExceptionInInitializerError(error);
    }
  }

  private static Layout layout(MinorType type) {
    return switch (type) {
      case BIT -> Layout.BITS;
      case TINYINT -> Layout.BYTES;
      case SMALLINT -> Layout.SHORTS;
      case INT, DATEDAY, INTERVALYEAR -> Layout.INTS;
      case BIGINT, DURATION, TIMESTAMPMICRO, TIMESTAMPMICROTZ -> Layout.LONGS;
      case FLOAT4 -> Layout.FLOATS;
      case FLOAT8 -> Layout.DOUBLES;
      case DECIMAL -> Layout.DECIMALS;
      case VARCHAR -> Layout.TEXTS;
      case VARBINARY -> Layout.BYTE_STRINGS;
      case LIST -> Layout.LISTS;
      case MAP -> Layout.MAPS;
      case STRUCT -> Layout.STRUCTS;
      default -> Layout.OTHER;
    };
  }

  private OwnedVector[] parts(FieldVector values) {
    List<FieldVector> vectors = switch (layout) {
      case LISTS -> List.of(((ListVector) values).getDataVector());
      case MAPS -> {
        StructVector entries = (StructVector) ((MapVector) values).getDataVector();
        yield List.of(entries.getChild(MapVector.KEY_NAME), entries.getChild(MapVector.VALUE_NAME));
      }
      case STRUCTS -> ((StructVector) values).getChildrenFromFields();
      default -> List.of();
    };
    List<OwnedVector> columns = new ArrayList<>(vectors.size());
    vectors.forEach(vector -> columns.add(new OwnedVector(batches, batch, vector)));
    return columns.toArray(OwnedVector[]::new);
  }

  @Override
  void beginReading() {
    if (!(boolean) READING.getOpaque(this)) {
      beginBatch();
    }
  }

  private void beginBatch() {
    VarHandle.acquireFence();
    if (closed) {
      throw new IllegalStateException("this batch of a Pravega table was read and closed already");
    }
    READING.setOpaque(this, true);
    batches.closeEarlierThan(batch);
  }

  @Override
  public void close() {
    if (!closed) {
      refuse();
      super.close();
    }
  }

  private void refuse() {
    closed = true;
    READING.setRelease(this, false);
    for (OwnedVector part : parts) {
      part.refuse();
    }
  }

  private boolean isNull(int row) {
    return valid != 0 && !bit(valid, row);
  }

  private static boolean bit(long bits, int row) {
    return (Platform.getByte(null, bits + (row >> 3)) >> (row & 7) & 1) != 0;
  }

  private int begin(int row) {
    return Platform.getInt(null, offsets + 4L * row);
  }

  private int end(int row) {
    return Platform.getInt(null, offsets + 4L * row + 4);
  }

  @Override
  public boolean isNullAt(int row) {
    beginReading();
    return layout == Layout.OTHER ? super.isNullAt(row) : isNull(row);
  }

  @Override
  public boolean getBoolean(int row) {
    beginReading();
    return layout == Layout.BITS ? bit(data, row) : super.getBoolean(row);
  }

  @Override
  public byte getByte(int row) {
    beginReading();
    return layout == Layout.BYTES ? Platform.getByte(null, data + row) : super.getByte(row);
  }

  @Override
  public short getShort(int row) {
    beginReading();
    return layout == Layout.SHORTS ? Platform.getShort(null, data + 2L * row) : super.getShort(row);
  }

  @Override
  public int getInt(int row) {
    beginReading();
    return layout == Layout.INTS ? Platform.getInt(null, data + 4L * row) : super.getInt(row);
  }

  @Override
  public long getLong(int row) {
    beginReading();
    return layout == Layout.LONGS ? Platform.getLong(null, data + 8L * row) : super.getLong(row);
  }

  @Override
  public float getFloat(int row) {
    beginReading();
    return layout == Layout.FLOATS ? Platform.getFloat(null, data + 4L * row) : super.getFloat(row);
  }

  @Override
  public double getDouble(int row) {
    beginReading();
    return layout == Layout.DOUBLES ? Platform.getDouble(null, data + 8L * row) : super.getDouble(row);
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    beginReading();
    if (layout != Layout.DECIMALS || precision > Decimal.MAX_LONG_DIGITS() || !isOf(precision, scale)) {
      return super.getDecimal(row, precision, scale);
    }
    // Of 16 bytes, the lowest first.
    return isNull(row) ? null : Decimal.createUnsafe(Platform.getLong(null, data + 16L * row), precision, scale);
  }

  private boolean isOf(int precision, int scale) {
    DecimalVector decimals = (DecimalVector) getValueVector();
    return decimals.getPrecision() == precision && decimals.getScale() == scale;
  }

  @Override
  public UTF8String getUTF8String(int row) {
    beginReading();
    if (layout != Layout.TEXTS) {
      return super.getUTF8String(row);
    }
    int begin = begin(row);
    return isNull(row) ? null : UTF8String.fromAddress(null, data + begin, end(row) - begin);
  }

  @Override
  public byte[] getBinary(int row) {
    beginReading();
    if (layout != Layout.BYTE_STRINGS) {
      return super.getBinary(row);
    }
    if (isNull(row)) {
      return null;
    }
    int begin = begin(row);
    byte[] bytes = new byte[end(row) - begin];
    Platform.copyMemory(null, data + begin, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
    return bytes;
  }

  @Override
  public CalendarInterval getInterval(int row) {
    beginReading();
    return super.getInterval(row);
  }

  @Override
  public ColumnarArray getArray(int row) {
    beginReading();
    if (layout != Layout.LISTS) {
      return super.getArray(row);
    }
    int begin = begin(row);
    return isNull(row) ? null : new ColumnarArray(parts[0], begin, end(row) - begin);
  }

  @Override
  public ColumnarMap getMap(int row) {
    beginReading();
    if (layout != Layout.MAPS) {
      return super.getMap(row);
    }
    int begin = begin(row);
    return isNull(row) ? null : new ColumnarMap(parts[0], parts[1], begin, end(row) - begin);
  }

  @Override
  public ArrowColumnVector getChild(int index) {
    return layout == Layout.STRUCTS ? parts[index] : super.getChild(index);
  }
}
