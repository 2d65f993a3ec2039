package pyspark.pravega.read;

import java.util.Arrays;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** How much of a table a batch read goes through, as the SQL tab of Spark's UI shows it. */
public abstract class ScanMetric implements CustomMetric {
  private final String name;
  private final String description;

  private ScanMetric(String name, String description) {
    this.name = name;
    this.description = description;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public String description() {
    return description;
  }

  @Override
  public String aggregateTaskMetrics(long[] values) {
    return Long.toString(Arrays.stream(values).sum());
  }

  static CustomMetric[] all() {
    return new CustomMetric[] {new Planned(), new Skipped()};
  }

  static CustomTaskMetric[] values(long planned, long skipped) {
    return new CustomTaskMetric[] {
      new Value(new Planned().name(), planned), new Value(new Skipped().name(), skipped)
    };
  }

  /** What is read. Public, as its sister is, because Spark makes them by reflection. */
  public static final class Planned extends ScanMetric {
    public Planned() {
      super("plannedBytes", "bytes of events to be read");
    }
  }

  /** What isn't, by the table's index. */
  public static final class Skipped extends ScanMetric {
    public Skipped() {
      super("skippedBytes", "bytes of events skipped by the table's index");
    }
  }

  private record Value(String name, long value) implements CustomTaskMetric {}
}
