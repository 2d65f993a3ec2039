package pyspark.pravega.internals;

import org.apache.spark.InterruptibleIterator;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import pyspark.pravega.bridge.Since;
import pyspark.pravega.bridge.Unchecked;
import pyspark.pravega.read.ColumnarReaderFactory;

/**
 * As {@link WorkerRunner}, but what is written to it reaches the worker at once, and what the worker gives comes back at
 * once: Spark's own collects 64 KiB either way. For that it has Spark's pipelined way, in which the worker's input is
 * written by a thread of its own and each batch of the worker's output is flushed.
 */
@SuppressWarnings("unchecked") // Spark's own class overrides its parents' methods with narrower types
public final class PromptRunner extends WorkerRunner {
  /** The Spark that has the pipelined way. */
  public static final String SINCE = "4.3";

  /** Less than any batch has: nothing waits in a buffer for more. */
  private static final int BUFFER_BYTES = 64;

  private PromptRunner(Call call, String daemon) {
    super(
        call.source,
        call.function,
        new StructType().add("struct", call.input),
        call.timeZone,
        call.runnerConf,
        ColumnarReaderFactory.metrics(),
        daemon);
  }

  /** Spark asks for it since 4.3. */
  public boolean pipelinedEnabled() {
    return true;
  }

  /** Refuses what runs in real time on a Spark without the pipelined way. */
  public static void refuseUnlessThere() {
    if (!Since.isAtLeast(SINCE)) {
      throw Unchecked.sneak(Since.refusal("queries with the real-time trigger read and write streams", SINCE));
    }
  }

  @Override
  public int bufferSize() {
    return BUFFER_BYTES;
  }

  /** A pickled function and what Spark's runner needs to know with it. Made on the driver, used in tasks. */
  public static final class Call implements java.io.Serializable {
    private static final long serialVersionUID = 1;

    private final UserDefinedPythonDataSource source;
    private final byte[] function;
    private final StructType input;
    private final String timeZone;
    private final scala.collection.immutable.Map<String, String> runnerConf;

    /**
     * @param source Spark's handle for Python functions
     * @param function the pickled function, from batches to batches
     * @param input the columns of what it is given
     */
    public Call(UserDefinedPythonDataSource source, byte[] function, StructType input) {
      this.source = source;
      this.function = function;
      this.input = input;
      SQLConf conf = SQLConf.get();
      timeZone = conf.sessionLocalTimeZone();
      runnerConf = ArrowPythonRunner.getPythonRunnerConfMap(conf);
    }

    /**
     * Runs it in a worker of the task's. Its answers are read to their end also when the task is killed: a worker that
     * is left while it speaks ends with a trace on standard error.
     *
     * @param batches what it is given: each is a batch of rows with one struct column. A thread of the runner's asks
     *     for them
     * @param partition the task's
     */
    public scala.collection.Iterator<ColumnarBatch> run(
        scala.collection.Iterator<scala.collection.Iterator<InternalRow>> batches, int partition) {
      scala.collection.Iterator<ColumnarBatch> answers =
          WorkerRunner.preloaded(
              daemon -> new PromptRunner(this, daemon).compute(batches, partition, TaskContext.get()));
      return answers instanceof InterruptibleIterator<ColumnarBatch> wrapped ? wrapped.delegate() : answers;
    }
  }
}
