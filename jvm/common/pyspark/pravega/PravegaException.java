package pyspark.pravega;

import pyspark.pravega.internals.ConditionException;

/** An error of the catalog process in Spark's style: a condition and one sentence, no Python trace. */
public class PravegaException extends ConditionException {
  public static final String UNSUPPORTED = "0A000";
  public static final String INVALID_OPTION = "42616";
  public static final String SYSTEM_ERROR = "58000";

  public PravegaException(String condition, String sqlState, String message) {
    super(condition, sqlState, message);
  }
}
