package pyspark.pravega.thrift;

import java.util.Map;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.hive.service.cli.session.HiveSession;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.hive.thriftserver.SparkExecuteStatementOperation;
import pyspark.pravega.bridge.Unchecked;

/** A client's statement, whose error says its condition once, and has no trace where spark-sql prints none. */
final class Statement extends SparkExecuteStatementOperation {
  private static final StackTraceElement[] NONE = new StackTraceElement[0];

  Statement(
      SparkSession spark,
      HiveSession session,
      String statement,
      Map<String, String> settings,
      boolean background,
      long timeout) {
    super(spark, session, statement, settings, background, timeout);
  }

  /** In the client's thread errors are thrown. */
  @Override
  public void runInternal() {
    try {
      super.runInternal();
    } catch (Exception error) {
      throw Unchecked.sneak(error instanceof HiveSQLException told ? plain(told) : error);
    }
  }

  /** In a thread of its own they are kept, until the client asks. */
  @Override
  protected void setOperationException(HiveSQLException error) {
    super.setOperationException(plain(error));
  }

  /** Spark writes {@code [A] class: [A] text}, and sends all traces along. */
  private static HiveSQLException plain(HiveSQLException error) {
    Throwable cause = error.getCause();
    if (!(cause instanceof SparkThrowable known) || known.getCondition() == null || known.isInternalError()) {
      return error;
    }
    String condition = "[" + known.getCondition() + "] ";
    String text = cause.getMessage().strip();
    String once = text.startsWith(condition) ? text : condition + text;
    HiveSQLException plain =
        new HiveSQLException(error.getMessage().replace(condition + cause, once), error.getSQLState());
    plain.setStackTrace(NONE);
    return plain;
  }
}
