package pyspark.pravega;

import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import scala.Option;
import scala.Some;

/** An error of the catalog process in Spark's style: a condition and one sentence, no Python trace. */
public class PravegaException extends AnalysisException {
  private static final String FOREIGN_DATA_ERROR = "HV000";

  PravegaException(String condition, String message) {
    super(
        "[" + condition + "] " + message,
        Option.empty(),
        Option.empty(),
        Option.empty(),
        new Some<>(condition),
        scala.collection.immutable.Map$.MODULE$.<String, String>empty(),
        new QueryContext[0],
        new Some<>(FOREIGN_DATA_ERROR),
        new Some<>(message));
  }
}
