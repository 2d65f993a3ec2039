package pyspark.pravega.bridge;

import com.codahale.metrics.Counter;
import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import com.codahale.metrics.Timer;
import com.fasterxml.jackson.databind.JsonNode;
import java.lang.ref.WeakReference;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkEnv;
import org.apache.spark.metrics.MetricsSystem;
import org.apache.spark.metrics.source.Source;
import pyspark.pravega.read.OwnedBatches;

/** Sources of Spark's own metric system, {@code pravega.read} and {@code pravega.write}: for its servlets, JMX, sinks. */
public final class MetricSources {
  private static final MetricRegistry READ = new MetricRegistry();
  private static final MetricRegistry WRITE = new MetricRegistry();
  private static final Counter ROWS_READ = READ.counter("rows");
  private static final Counter BYTES_READ = READ.counter("bytes");
  private static final Counter PARTITIONS_READ = READ.counter("partitions");
  private static final Counter ROWS_WRITTEN = WRITE.counter("rows");
  private static final Counter BYTES_WRITTEN = WRITE.counter("bytes");
  private static final Counter COMMITS = WRITE.counter("commits");
  private static final Timer COMMIT_DURATION = WRITE.timer("commitDuration");
  private static WeakReference<MetricsSystem> registered = new WeakReference<>(null);

  static {
    READ.register("heldBytes", (Gauge<Long>) OwnedBatches::heldBytes);
  }

  private MetricSources() {}

  /** Counts a partition that was read: the rows and Arrow bytes that came from Python. */
  public static void partitionRead(long rows, long bytes) {
    register();
    ROWS_READ.inc(rows);
    BYTES_READ.inc(bytes);
    PARTITIONS_READ.inc();
  }

  /** Counts a commit, as the catalog process reports it; one that was made before isn't counted again. */
  public static void committed(JsonNode report) {
    register();
    if (!report.get("repeated").asBoolean()) {
      ROWS_WRITTEN.inc(report.get("rows").asLong());
      BYTES_WRITTEN.inc(report.get("bytes").asLong());
      COMMITS.inc();
      COMMIT_DURATION.update(report.get("milliseconds").asLong(), TimeUnit.MILLISECONDS);
    }
  }

  /** Makes the sources known to this process's metric system: once, and again where a session has made another one. */
  static synchronized void register() {
    SparkEnv environment = SparkEnv.get();
    if (environment == null || environment.metricsSystem() == registered.get()) {
      return;
    }
    MetricsSystem system = environment.metricsSystem();
    system.registerSource(new RegistrySource("pravega.read", READ));
    system.registerSource(new RegistrySource("pravega.write", WRITE));
    registered = new WeakReference<>(system);
  }

  private record RegistrySource(String sourceName, MetricRegistry metricRegistry) implements Source {}
}
