package pyspark.pravega.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.apache.spark.sql.connector.catalog.Table;
import pyspark.pravega.bridge.Since;
import pyspark.pravega.bridge.Unchecked;

/**
 * A table whose constraints Spark doesn't know: before 4.1 it holds rows against none, so none are written.
 *
 * <p>Nor does it know tables by their ids: what was cached is made anew behind a write where the tables are equal.
 */
public abstract class CheckedTable implements Table {
  private final List<String> checks = new ArrayList<>();
  private final String name;

  CheckedTable(JsonNode loaded, String name) {
    this.name = name;
    for (JsonNode check : loaded.get("checks")) {
      if (check.get("enforced").asBoolean()) {
        checks.add(check.get("name").asText());
      }
    }
  }

  @Override
  public final boolean equals(Object other) {
    return this instanceof PravegaTable table
        && other instanceof PravegaTable another
        && table.isSame(another)
        && Objects.equals(table.id(), another.id());
  }

  @Override
  public final int hashCode() {
    return name().hashCode();
  }

  /** A statement that changes rows is about to write. */
  final void changeRows() {}

  /** The names of the constraints that Spark holds rows against; fails where there should be some. */
  public final List<String> enforced() {
    if (!checks.isEmpty()) {
      String names = String.join(", ", checks);
      throw Unchecked.sneak(
          Since.refusal(name + " has CHECK constraints (" + names + "), which Spark holds rows against", "4.1"));
    }
    return List.of();
  }
}
