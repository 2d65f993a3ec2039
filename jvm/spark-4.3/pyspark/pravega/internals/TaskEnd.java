package pyspark.pravega.internals;

import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;

/** The end of a task, as a task's code hears of it since 4.3: before Spark's own listeners. */
public final class TaskEnd {
  private TaskEnd() {}

  /** Calls a listener at the end of this thread's task, before those that were there already. */
  public static void before(TaskCompletionListener listener) {
    TaskContext.get().addTaskPreCompletionListener(listener);
  }
}
