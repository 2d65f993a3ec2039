package pyspark.pravega.read;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** How much of a table a batch read goes through. */
public final class ScanMetric {
  private ScanMetric() {}

  static CustomMetric[] all() {
    return new CustomMetric[] {new Planned(), new Skipped()};
  }

  static CustomTaskMetric[] values(long planned, long skipped) {
    return new CustomTaskMetric[] {new Planned().of(planned), new Skipped().of(skipped)};
  }

  /** What is read. */
  public static final class Planned extends SummedMetric {
    public Planned() {
      super("plannedBytes", "bytes of events to be read");
    }
  }

  /** What isn't, by the table's index, or as the lake's files tell it when the query runs. */
  public static final class Skipped extends SummedMetric {
    public Skipped() {
      super("skippedBytes", "bytes of events skipped by the table's index");
    }
  }
}
