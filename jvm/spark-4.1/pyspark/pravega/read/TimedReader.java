package pyspark.pravega.read;

import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;

/** A reader whose rows are waited for with a time-out, as 4.1 asks for them. */
abstract class TimedReader implements SupportsRealTimeRead<InternalRow> {
  /** Goes to the next row, unless none comes in so many milliseconds. */
  abstract boolean nextWithin(long milliseconds) throws IOException;

  @Override
  public final RecordStatus nextWithTimeout(Long timeoutMs) throws IOException {
    return RecordStatus.newStatusWithoutArrivalTime(nextWithin(timeoutMs));
  }
}
