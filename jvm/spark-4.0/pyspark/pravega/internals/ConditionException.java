package pyspark.pravega.internals;

import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import scala.Option;
import scala.Some;

/** Spark's error with a condition of ours, of which 4.0 looks up the state among its own. */
public class ConditionException extends AnalysisException {
  private final String sqlState;

  public ConditionException(String condition, String sqlState, String message) {
    super(
        "[" + condition + "] " + message,
        Option.empty(),
        Option.empty(),
        Option.empty(),
        new Some<>(condition),
        scala.collection.immutable.Map$.MODULE$.<String, String>empty(),
        new QueryContext[0]);
    this.sqlState = sqlState;
  }

  @Override
  public String getSqlState() {
    return sqlState;
  }
}
