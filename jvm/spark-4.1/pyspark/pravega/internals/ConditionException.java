package pyspark.pravega.internals;

import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import scala.Option;
import scala.Some;

/** Spark's error with a condition of ours; since 4.1 Spark takes its state and its text, too. */
public class ConditionException extends AnalysisException {
  public ConditionException(String condition, String sqlState, String message) {
    super(
        "[" + condition + "] " + message,
        Option.empty(),
        Option.empty(),
        Option.empty(),
        new Some<>(condition),
        scala.collection.immutable.Map$.MODULE$.<String, String>empty(),
        new QueryContext[0],
        new Some<>(sqlState),
        new Some<>(message));
  }
}
