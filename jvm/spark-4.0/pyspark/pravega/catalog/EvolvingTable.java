package pyspark.pravega.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.EnumSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.TableCapability;

/** A table whose columns no write changes: before 4.2 no INSERT can ask for that. */
abstract class EvolvingTable extends CheckedTable {
  EvolvingTable(JsonNode loaded, String name) {
    super(loaded, name);
  }

  /** What a table can do for writes that change its columns. */
  static Set<TableCapability> evolution() {
    return EnumSet.noneOf(TableCapability.class);
  }
}
