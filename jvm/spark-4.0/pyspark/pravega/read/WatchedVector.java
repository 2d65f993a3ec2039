package pyspark.pravega.read;

import org.apache.arrow.vector.ValueVector;
import org.apache.spark.sql.vectorized.ArrowColumnVector;

/** Hears when values are read that only later Sparks have: none. */
abstract class WatchedVector extends ArrowColumnVector {
  WatchedVector(ValueVector vector) {
    super(vector);
  }

  /** Called before a value is read. */
  abstract void beginReading();
}
