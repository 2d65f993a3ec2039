package pyspark.pravega.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import pyspark.pravega.bridge.Since;
import pyspark.pravega.bridge.Unchecked;

/** Tables only: before 4.2 Spark's SQL asks no catalog for views. */
abstract class Relations extends TableDefinitions {
  /** Asks about a relation, which changes nothing. */
  public abstract JsonNode ask(Identifier relation, String method, Object... parameters);

  /** A relation as it is now, or as it was when the statement that is analysed had begun. */
  public abstract JsonNode loaded(Identifier relation);

  /** Says or asks something about a relation. */
  public abstract JsonNode about(Identifier relation, String method, Object... parameters);

  @Override
  public Table loadTable(Identifier table) {
    JsonNode loaded = loaded(table);
    if (loaded.has("query")) {
      throw Unchecked.sneak(Since.refusal(table + " is a view, which a catalog may have", "4.2"));
    }
    return table(table, loaded);
  }
}
