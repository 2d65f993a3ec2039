package pyspark.pravega;

import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import scala.Option;
import scala.Some;

/** An error of the catalog process in Spark's style: a condition and one sentence, no Python trace. */
public class PravegaException extends AnalysisException {
  static final String UNSUPPORTED = "0A000";
  static final String INVALID_OPTION = "42616";
  static final String SYSTEM_ERROR = "58000";

  PravegaException(String condition, String sqlState, String message) {
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
