package pyspark.pravega.internals;

import java.io.DataInputStream;
import java.io.IOException;
import java.net.StandardSocketOptions;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.api.python.BasePythonRunner;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.api.python.PythonWorker;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import pyspark.pravega.bridge.Unchecked;
import pyspark.pravega.read.ColumnarReaderFactory;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;

/**
 * Spark's Arrow runner, whose workers are forked by a daemon that has loaded this package ({@code
 * spark/daemon.py}). Tasks of others keep Spark's own daemon. Where ours can't be started, as with a Python that
 * lacks the package, Spark's own takes its place: its workers say what is missing.
 */
@SuppressWarnings("unchecked") // Scala's generic methods, as Java sees them
public class WorkerRunner extends ArrowRunner {
  /** Spark's name for what names the module that it starts: private there, and asked for by this name. */
  static final String DAEMON_MODULE = "org$apache$spark$api$python$BasePythonRunner$$daemonModule";

  private static final String CONFIGURED = "spark.python.daemon.module";
  private static final int MOST_TRIES = 1000;
  private static volatile String preloaded = "pyspark_pravega.spark.daemon";

  private final String daemon;
  private Consumer<Worker> begun = worker -> {};

  /**
   * @param daemon the module of the daemon; null for Spark's own, or the one that the user has configured
   */
  WorkerRunner(
      UserDefinedPythonDataSource source,
      byte[] function,
      StructType input,
      String timeZone,
      scala.collection.immutable.Map<String, String> runnerConf,
      scala.collection.immutable.Map<String, SQLMetric> counts,
      String daemon) {
    super(
        ColumnarReaderFactory.seq(List.of(call(source, function))), input, timeZone, runnerConf, counts);
    this.daemon = daemon;
  }

  /** Whether Spark's runner is the one that this class was written for. */
  public static boolean isAsExpected() {
    List<Class<?>> parameters =
        new ArrayList<>(
            List.of(
                Seq.class,
                int.class,
                int[][].class,
                StructType.class,
                String.class,
                boolean.class,
                scala.collection.immutable.Map.class,
                scala.collection.immutable.Map.class));
    parameters.addAll(Collections.nCopies(OPTIONS, Option.class));
    try {
      ArrowPythonRunner.class.getConstructor(parameters.toArray(new Class<?>[0]));
      return true;
    } catch (NoSuchMethodException | LinkageError error) {
      return false;
    }
  }

  private static Tuple2<ChainedPythonFunctions, Object> call(UserDefinedPythonDataSource source, byte[] function) {
    return new Tuple2<>(
        new ChainedPythonFunctions(ColumnarReaderFactory.seq(List.of(source.createPythonFunction(function)))),
        Long.valueOf(0));
  }

  /**
   * Runs a pickled function in a worker.
   *
   * @param source Spark's handle for Python functions
   * @param function the pickled function
   * @param input the columns of its input
   * @param counts what the runner counts into
   * @param rows the input; nothing of it is taken before there is a worker
   * @param partition the task's
   * @param begun is told the worker when it begins
   */
  public static scala.collection.Iterator<ColumnarBatch> run(
      UserDefinedPythonDataSource source,
      byte[] function,
      StructType input,
      String timeZone,
      scala.collection.immutable.Map<String, String> runnerConf,
      scala.collection.immutable.Map<String, SQLMetric> counts,
      scala.collection.Iterator<scala.collection.Iterator<InternalRow>> rows,
      int partition,
      Consumer<Worker> begun) {
    return preloaded(
        daemon -> {
          WorkerRunner runner = new WorkerRunner(source, function, input, timeZone, runnerConf, counts, daemon);
          runner.begun = begun;
          return runner.compute(rows, partition, TaskContext.get());
        });
  }

  /**
   * A worker at work.
   *
   * @param taken whether Spark, or who gave it up, has settled what becomes of it
   */
  public record Worker(PythonWorker process, AtomicBoolean taken) {
    /** Closes the connection to it, unless it has come to its end: who reads its output fails then. */
    public void giveUp() {
      if (taken.compareAndSet(false, true)) {
        process.stop();
      }
    }
  }

  /**
   * Runs something in a worker of the daemon that has loaded this package, or else of Spark's own.
   *
   * <p>Where a daemon has ended, Spark tells it of each worker that waits no longer, and fails with an IOException. The
   * next try does without that worker, and Spark starts another daemon when none are left. Any other failure says that
   * this package's daemon can't run here, so Spark's is used from then on.
   *
   * @param run is given the daemon's module, or null for Spark's own
   */
  static scala.collection.Iterator<ColumnarBatch> preloaded(
      Function<String, scala.collection.Iterator<ColumnarBatch>> run) {
    String daemon = SparkEnv.get().conf().contains(CONFIGURED) ? null : preloaded;
    for (int tries = 0; daemon != null; tries++) {
      try {
        return run.apply(daemon);
      } catch (Exception error) {
        if (TaskContext.get().isInterrupted() || Thread.currentThread().isInterrupted()) {
          throw Unchecked.sneak(error);
        }
        if (!(error instanceof IOException) || tries == MOST_TRIES) {
          daemon = null;
          preloaded = null;
        }
      }
    }
    return run.apply(null);
  }

  /** Spark's own, whose small messages don't wait until the worker has acknowledged those before: 40 ms, with Linux. */
  @Override
  public BasePythonRunner<scala.collection.Iterator<InternalRow>, ColumnarBatch>.Writer newWriter(
      SparkEnv env,
      PythonWorker worker,
      scala.collection.Iterator<scala.collection.Iterator<InternalRow>> rows,
      int partition,
      TaskContext context) {
    SocketChannel channel = worker.channel();
    if (channel.supportedOptions().contains(StandardSocketOptions.TCP_NODELAY)) {
      try {
        channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
      } catch (IOException error) {
        throw Unchecked.sneak(error);
      }
    }
    return super.newWriter(env, worker, rows, partition, context);
  }

  /** Spark's own, of which is told with what it reads: its arguments' types are another Spark's others. */
  @Override
  @SuppressWarnings("rawtypes")
  public scala.collection.Iterator newReaderIterator(
      DataInputStream output,
      BasePythonRunner.Writer writer,
      long startTime,
      SparkEnv env,
      PythonWorker worker,
      Option process,
      AtomicBoolean releasedOrClosed,
      TaskContext context) {
    begun.accept(new Worker(worker, releasedOrClosed));
    // So Java takes the method of Spark's that Scala has made of a trait's, not the abstract one.
    BasePythonRunner<?, ?>.Writer own = writer;
    return super.newReaderIterator(output, own, startTime, env, worker, process, releasedOrClosed, context);
  }

  /** Spark's name for the module that it starts; private there, and asked for by this name. */
  public String org$apache$spark$api$python$BasePythonRunner$$daemonModule() {
    return daemon == null ? super.org$apache$spark$api$python$BasePythonRunner$$daemonModule() : daemon;
  }
}
