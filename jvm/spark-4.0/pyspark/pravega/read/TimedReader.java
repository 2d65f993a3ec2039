package pyspark.pravega.read;

import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;

/** A reader whose rows are waited for with a time-out; nobody asks for one before 4.1. */
abstract class TimedReader implements PartitionReader<InternalRow> {
  /** Goes to the next row, unless none comes in so many milliseconds. */
  abstract boolean nextWithin(long milliseconds) throws IOException;

  public abstract PartitionOffset getOffset();
}
