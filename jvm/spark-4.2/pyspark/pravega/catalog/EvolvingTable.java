package pyspark.pravega.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.EnumSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsSchemaEvolution;
import org.apache.spark.sql.connector.catalog.TableCapability;

/** A table to which a write may add columns, {@code WITH SCHEMA EVOLUTION}: since 4.2. */
abstract class EvolvingTable extends CheckedTable implements SupportsSchemaEvolution {
  EvolvingTable(JsonNode loaded, String name) {
    super(loaded, name);
  }

  /** What a table can do for writes that change its columns. */
  static Set<TableCapability> evolution() {
    return EnumSet.of(TableCapability.AUTOMATIC_SCHEMA_EVOLUTION);
  }
}
