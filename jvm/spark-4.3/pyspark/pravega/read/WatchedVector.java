package pyspark.pravega.read;

import org.apache.arrow.vector.ValueVector;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.unsafe.types.BinaryView;
import org.apache.spark.unsafe.types.TimestampNanosVal;

/** Hears when values are read that Spark has since 4.2 and 4.3. */
abstract class WatchedVector extends ArrowColumnVector {
  WatchedVector(ValueVector vector) {
    super(vector);
  }

  /** Called before a value is read. */
  abstract void beginReading();

  @Override
  public BinaryView getBinaryView(int row) {
    beginReading();
    return super.getBinaryView(row);
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
}
