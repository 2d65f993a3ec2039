package pyspark.pravega.internals;

import java.lang.reflect.Method;
import java.util.HexFormat;
import org.apache.hive.service.cli.session.SessionManager;
import org.apache.spark.api.python.PythonWorker;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.hive.thriftserver.HiveThriftServer2;
import org.apache.spark.sql.hive.thriftserver.SparkSQLSessionManager;
import org.apache.spark.unsafe.types.UTF8String;
import pyspark.pravega.bridge.Since;

/** Looks whether this Spark's internals are as this package expects them: a line for each, for {@code doctor}. */
public final class SelfCheck {
  private SelfCheck() {}

  private interface Look {
    /** Whether it is as expected; fails where it isn't there. */
    boolean run() throws Exception;
  }

  /** Prints a name, a tab, and {@code ok} or what is otherwise. */
  public static void main(String[] arguments) {
    tell("Spark", () -> Since.fits());
    tell("Arrow runner", WorkerRunner::isAsExpected);
    tell("daemon module", () -> has(ArrowPythonRunner.class, WorkerRunner.DAEMON_MODULE));
    tell("worker channel", () -> has(PythonWorker.class, "channel") && has(PythonWorker.class, "stop"));
    tell("worker's output", () -> has(ArrowPythonRunner.class, "newReaderIterator"));
    if (Since.isAtLeast(PromptRunner.SINCE)) {
      tell("pipelined runner", () -> has(ArrowPythonRunner.class, "pipelinedEnabled"));
    }
    tell("rows in memory", SelfCheck::rowsLieAsExpected);
    tell(
        "Python scans",
        () ->
            PythonScan.class.getDeclaredField("shortName") != null
                && PythonScan.class.getDeclaredField("options") != null);
    tell("planning tracker", () -> QueryPlanningTracker.get().isEmpty());
    tell(
        "Thrift server",
        () ->
            SessionManager.class.getDeclaredField("operationManager") != null
                && SparkSQLSessionManager.class.getDeclaredField("sparkSqlOperationManager") != null
                && has(Class.forName(HiveThriftServer2.class.getName() + "$"), "createListenerAndUI"));
  }

  private static void tell(String what, Look look) {
    String found;
    try {
      found = look.run() ? "ok" : "otherwise than expected";
    } catch (Exception | LinkageError error) {
      found = error.toString();
    }
    System.out.println(what + "\t" + found);
  }

  private static boolean has(Class<?> type, String name) {
    for (Class<?> one = type; one != null; one = one.getSuperclass()) {
      for (Method method : one.getDeclaredMethods()) {
        if (method.getName().equals(name)) {
          return true;
        }
      }
    }
    return false;
  }

  /** A row of a number, of nothing and of a text, as {@code spark/unsafe_rows.py} takes it apart. */
  private static boolean rowsLieAsExpected() {
    UnsafeRowWriter writer = new UnsafeRowWriter(3);
    writer.resetRowWriter();
    writer.write(0, 7L);
    writer.setNullAt(1);
    writer.write(2, UTF8String.fromString("ab"));
    byte[] row = writer.getRow().getBytes();
    String nulls = "0200000000000000";
    String words = "0700000000000000" + "0000000000000000" + "0200000020000000";
    return HexFormat.of().formatHex(row).equals(nulls + words + "6162000000000000");
  }
}
