package pyspark.pravega.catalog;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.TableChange;

/** Before 4.1 Spark has no constraints. */
public final class Constraints {
  private Constraints() {}

  /** Whether ALTER TABLE adds one. */
  public static boolean added(TableChange... changes) {
    return false;
  }

  /** Says what a change of constraints is; none is one. */
  static void describe(TableChange change, Map<String, Object> described) {}
}
