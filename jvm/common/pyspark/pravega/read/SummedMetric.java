package pyspark.pravega.read;

import java.util.Arrays;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** A figure of a read that the SQL tab of Spark's UI shows. Its kinds are public, as Spark makes them by reflection. */
public abstract class SummedMetric implements CustomMetric {
  private final String name;
  private final String description;

  SummedMetric(String name, String description) {
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

  CustomTaskMetric of(long value) {
    return new Value(name, value);
  }

  private record Value(String name, long value) implements CustomTaskMetric {}
}
