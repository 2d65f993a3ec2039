package pyspark.pravega.read;

import java.io.File;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.spark.TaskContext;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.execution.python.PythonSQLMetrics;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.TaskCompletionListener;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import pyspark.pravega.bridge.MetricSources;
import pyspark.pravega.internals.TaskEnd;
import pyspark.pravega.internals.WorkerRunner;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Reads partitions as the Arrow batches that the Python worker sends, without making rows of them. It runs Spark's
 * Arrow runner itself ({@link WorkerRunner}), which is Spark's internal matter: where it isn't as expected {@link
 * #available()} is false and Spark's own factory, which makes rows, takes its place.
 */
public final class ColumnarReaderFactory implements PartitionReaderFactory {
  private static final Logger LOG = LoggerFactory.getLogger(ColumnarReaderFactory.class);

  private final UserDefinedPythonDataSource source;
  private final byte[] function;
  private final int columns;
  private final long sharedMemory;
  private final String timeZone;
  private final scala.collection.immutable.Map<String, String> runnerConf;

  /**
   * @param source Spark's handle for Python functions
   * @param function the pickled read function
   * @param columns how many columns of its batches the query wants: all, or none of the one that stands for rows
   * @param sharedMemory how many bytes a task's worker may share with it; 0 for none
   */
  ColumnarReaderFactory(
      UserDefinedPythonDataSource source, byte[] function, int columns, long sharedMemory) {
    this.source = source;
    this.function = function;
    this.columns = columns;
    this.sharedMemory = sharedMemory;
    SQLConf conf = SQLConf.get();
    timeZone = conf.sessionLocalTimeZone();
    runnerConf = ArrowPythonRunner.getPythonRunnerConfMap(conf);
  }

  /**
   * Whether this Spark has the runner that this class was written for, and nobody has switched it off with the system
   * property {@code pyspark.pravega.columnar=false}.
   */
  public static boolean available() {
    if (!Boolean.parseBoolean(System.getProperty("pyspark.pravega.columnar", "true"))) {
      return false;
    }
    return WorkerRunner.isAsExpected();
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    throw new UnsupportedOperationException("columnar only");
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    PythonInputPartition planned = (PythonInputPartition) partition;
    Map<String, SQLMetric> counts = counts();
    // Called last: listeners are called in the reverse of their order.
    AtomicReference<Runnable> counted = new AtomicReference<>(() -> {});
    TaskCompletionListener ended = task -> counted.get().run();
    TaskContext.get().addTaskCompletionListener(ended);
    // A name that no column has: by it the worker's answers are known to be messages.
    String mark = sharedMemory == 0 || !SharedRing.available() ? null : "pravega-" + UUID.randomUUID();
    File stop = new File(System.getProperty("java.io.tmpdir"), "pravega-" + UUID.randomUUID());
    StructType columnsIn = UserDefinedPythonDataSource.readInputSchema().add("stop", "string");
    List<Object> values = new ArrayList<>(List.of(planned.pickedPartition(), UTF8String.fromString(stop.getPath())));
    if (mark != null) {
      columnsIn = columnsIn.add("mark", "string").add("bytes", "long");
      values.addAll(List.of(UTF8String.fromString(mark), sharedMemory));
    }
    InternalRow input = new GenericInternalRow(new Object[] {new GenericInternalRow(values.toArray())});
    AtomicReference<WorkerRunner.Worker> worker = new AtomicReference<>();
    scala.collection.Iterator<ColumnarBatch> received =
        WorkerRunner.run(
            source,
            function,
            new StructType().add("struct", columnsIn),
            timeZone,
            runnerConf,
            PythonUtils.toScalaMap(counts),
            scala.collection.Iterator$.MODULE$.single(scala.collection.Iterator$.MODULE$.single(input)),
            planned.index(),
            worker::set);
    OwnedBatches batches = new OwnedBatches(received, columns, TaskContext.get(), mark);
    // Listeners are called in the reverse of their order: this one before the runner's, which stop its worker and,
    // where Spark's pipelined way is configured, the thread that writes its input.
    TaskCompletionListener stopped = task -> stopEarly(task, batches, stop, worker.get());
    TaskEnd.before(stopped);
    counted.set(
        () -> MetricSources.partitionRead(
            batches.rows(), counts.get("pythonDataReceived").value() + batches.sharedBytes()));
    return batches;
  }

  private static void stopEarly(TaskContext task, OwnedBatches batches, File stop, WorkerRunner.Worker worker) {
    if (worker != null && !task.isFailed() && !task.isInterrupted()) {
      try {
        batches.stopEarly(stop, worker::giveUp);
      } catch (Exception error) {
        // What comes behind the rows that were read can't fail the task. Spark stops the worker.
        LOG.debug("A Python worker that was read in part isn't used again", error);
      }
    }
  }

  /** A runner counts into these; nobody shows them. */
  public static scala.collection.immutable.Map<String, SQLMetric> metrics() {
    return PythonUtils.toScalaMap(counts());
  }

  private static Map<String, SQLMetric> counts() {
    Map<String, SQLMetric> metrics = new HashMap<>();
    names(PythonSQLMetrics.pythonSizeMetricsDesc()).forEach(name -> metrics.put(name, new SQLMetric("size", -1)));
    names(PythonSQLMetrics.pythonTimingMetricsDesc()).forEach(name -> metrics.put(name, new SQLMetric("timing", -1)));
    names(PythonSQLMetrics.pythonOtherMetricsDesc()).forEach(name -> metrics.put(name, new SQLMetric("sum", -1)));
    return metrics;
  }

  private static Iterable<String> names(scala.collection.immutable.Map<String, String> descriptions) {
    return CollectionConverters.asJava(descriptions.keys());
  }

  public static <T> scala.collection.immutable.Seq<T> seq(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }
}
