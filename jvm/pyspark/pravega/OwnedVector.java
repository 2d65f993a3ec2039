package pyspark.pravega;

import org.apache.arrow.vector.ValueVector;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.BinaryView;
import org.apache.spark.unsafe.types.CalendarInterval;
import org.apache.spark.unsafe.types.TimestampNanosVal;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of one batch of {@link OwnedBatches}, which hears when Spark begins to read its values. Operators that pass
 * a column on as a whole take its Arrow vector and don't read values.
 */
final class OwnedVector extends ArrowColumnVector {
  private final OwnedBatches batches;
  private final OwnedVector[] batch;
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
  }

  private void beginReading() {
    if (!reading) {
      if (closed) {
        throw new IllegalStateException("this batch of a Pravega table was read and closed already");
      }
      reading = true;
      batches.closeEarlierThan(batch);
    }
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      reading = false;
      super.close();
    }
  }

  @Override
  public boolean isNullAt(int row) {
    beginReading();
    return super.isNullAt(row);
  }

  @Override
  public boolean getBoolean(int row) {
    beginReading();
    return super.getBoolean(row);
  }

  @Override
  public byte getByte(int row) {
    beginReading();
    return super.getByte(row);
  }

  @Override
  public short getShort(int row) {
    beginReading();
    return super.getShort(row);
  }

  @Override
  public int getInt(int row) {
    beginReading();
    return super.getInt(row);
  }

  @Override
  public long getLong(int row) {
    beginReading();
    return super.getLong(row);
  }

  @Override
  public float getFloat(int row) {
    beginReading();
    return super.getFloat(row);
  }

  @Override
  public double getDouble(int row) {
    beginReading();
    return super.getDouble(row);
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    beginReading();
    return super.getDecimal(row, precision, scale);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    beginReading();
    return super.getUTF8String(row);
  }

  @Override
  public byte[] getBinary(int row) {
    beginReading();
    return super.getBinary(row);
  }

  @Override
  public BinaryView getBinaryView(int row) {
    beginReading();
    return super.getBinaryView(row);
  }

  @Override
  public CalendarInterval getInterval(int row) {
    beginReading();
    return super.getInterval(row);
  }

  @Override
  public TimestampNanosVal getTimestampNTZNanos(int row) {
    beginReading();
    return super.getTimestampNTZNanos(row);
  }

  @Override
  public TimestampNanosVal getTimestampLTZNanos(int row) {
    beginReading();
    return super.getTimestampLTZNanos(row);
  }

  @Override
  public ColumnarArray getArray(int row) {
    beginReading();
    return super.getArray(row);
  }

  @Override
  public ColumnarMap getMap(int row) {
    beginReading();
    return super.getMap(row);
  }
}
