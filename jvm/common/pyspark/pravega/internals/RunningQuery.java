package pyspark.pravega.internals;

import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.streaming.Trigger;

/** A streaming query that runs in this JVM. Its class has moved with Spark 4.1, so it isn't named here. */
public final class RunningQuery {
  // The session's own list doesn't have them: a query runs in a clone of its session.

  private RunningQuery() {}

  /** Whether a query has the real-time trigger; false where the query isn't known. */
  public static boolean isRealTime(String query) {
    var execution = SparkSession.active().sharedState().activeStreamingQueries().get(UUID.fromString(query));
    return execution != null && isRealTime(execution.trigger());
  }

  /** Where an epoch of a query ends in its sources, as its checkpoint tells; null where that isn't known. */
  public static List<String> offsets(String query, long epoch) {
    return isRealTime(query) ? null : noted(query, epoch);
  }

  /** Where an epoch of a query begins in its sources: where the one before has ended; null where that isn't known. */
  public static List<String> begin(String query, long epoch) {
    return noted(query, epoch - 1);
  }

  /** What a query's rows are made of; null where the query isn't known. */
  public static LogicalPlan plan(String query) {
    var execution = SparkSession.active().sharedState().activeStreamingQueries().get(UUID.fromString(query));
    return execution == null ? null : execution.logicalPlan();
  }

  private static List<String> noted(String query, long epoch) {
    var execution = SparkSession.active().sharedState().activeStreamingQueries().get(UUID.fromString(query));
    if (execution == null || epoch < 0) {
      return null;
    }
    var noted = execution.offsetLog().get(epoch);
    if (noted.isEmpty()) {
      return null;
    }
    List<String> offsets = new ArrayList<>();
    noted.get().offsets().foreach(offset -> offsets.add(offset.isEmpty() ? null : offset.get().json()));
    return offsets;
  }

  /** Spark has it since 4.1. */
  private static boolean isRealTime(Trigger trigger) {
    return trigger.getClass().getSimpleName().equals("RealTimeTrigger");
  }
}
