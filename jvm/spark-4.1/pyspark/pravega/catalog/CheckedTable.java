package pyspark.pravega.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import pyspark.pravega.bridge.Answers;

/** A table's constraints, which Spark holds rows against since 4.1. */
abstract class CheckedTable implements Table {
  private final Constraint[] constraints;
  private volatile boolean changesRows;

  CheckedTable(JsonNode loaded, String name) {
    constraints = Constraints.of(loaded.get("checks"), Answers.names(loaded.get("primaryKey")), name);
  }

  @Override
  public Constraint[] constraints() {
    return changesRows ? Constraints.ofChanges(constraints) : constraints.clone();
  }

  /** A statement that changes rows is about to write: Spark asks for the constraints behind this. */
  final void changeRows() {
    changesRows = true;
  }

  /** The names of the constraints that Spark holds rows against. */
  public final List<String> enforced() {
    return Constraints.enforced(constraints);
  }
}
