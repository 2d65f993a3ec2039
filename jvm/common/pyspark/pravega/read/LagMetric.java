package pyspark.pravega.read;

import java.util.Arrays;
import java.util.Map;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** How far a streaming read is behind its stream's tail, as the SQL tab of Spark's UI shows it with each micro-batch. */
public abstract class LagMetric implements CustomMetric {
  private final String name;
  private final String description;

  private LagMetric(String name, String description) {
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
    return new CustomMetric[] {new Bytes(), new Events(), new SlowestSegment()};
  }

  /** The metrics' values among a read's figures. */
  static CustomTaskMetric[] values(Map<String, String> figures) {
    return Arrays.stream(all())
        .filter(metric -> figures.containsKey(metric.name()))
        .map(metric -> new Value(metric.name(), Long.parseLong(figures.get(metric.name()))))
        .toArray(CustomTaskMetric[]::new);
  }

  /** All segments' bytes. Public, as its sisters are, because Spark makes them by reflection. */
  public static final class Bytes extends LagMetric {
    public Bytes() {
      super("totalBytesBehindLatest", "bytes behind the stream's tail");
    }
  }

  /** All segments' events. */
  public static final class Events extends LagMetric {
    public Events() {
      super("totalEventsBehindLatest", "events behind the stream's tail (estimated)");
    }
  }

  /** The bytes of the segment that has most of them. */
  public static final class SlowestSegment extends LagMetric {
    public SlowestSegment() {
      super("maxBytesBehindLatest", "bytes behind the tail of the slowest segment");
    }
  }

  private record Value(String name, long value) implements CustomTaskMetric {}
}
