package pyspark.pravega.read;

import java.util.Arrays;
import java.util.Map;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** How far a streaming read is behind its stream's tail, with each micro-batch. */
public final class LagMetric {
  private LagMetric() {}

  static CustomMetric[] all() {
    return kinds();
  }

  /** The metrics' values among a read's figures. */
  static CustomTaskMetric[] values(Map<String, String> figures) {
    return Arrays.stream(kinds())
        .filter(metric -> figures.containsKey(metric.name()))
        .map(metric -> metric.of(Long.parseLong(figures.get(metric.name()))))
        .toArray(CustomTaskMetric[]::new);
  }

  private static SummedMetric[] kinds() {
    return new SummedMetric[] {new Bytes(), new Events(), new SlowestSegment()};
  }

  /** All segments' bytes. */
  public static final class Bytes extends SummedMetric {
    public Bytes() {
      super("totalBytesBehindLatest", "bytes behind the stream's tail");
    }
  }

  /** All segments' events. */
  public static final class Events extends SummedMetric {
    public Events() {
      super("totalEventsBehindLatest", "events behind the stream's tail (estimated)");
    }
  }

  /** The bytes of the segment that has most of them. */
  public static final class SlowestSegment extends SummedMetric {
    public SlowestSegment() {
      super("maxBytesBehindLatest", "bytes behind the tail of the slowest segment");
    }
  }
}
