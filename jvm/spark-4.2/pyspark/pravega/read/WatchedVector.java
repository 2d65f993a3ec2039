package pyspark.pravega.read;

import org.apache.arrow.vector.ValueVector;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.unsafe.types.BinaryView;

/** Hears when values are read that Spark has since 4.2. */
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
}
