package pyspark.pravega.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.View;
import pyspark.pravega.bridge.Answers;

/** Views as the catalog process keeps them. */
final class Views {
  private static final ObjectMapper JSON = new ObjectMapper();

  private Views() {}

  static boolean is(JsonNode loaded) {
    return loaded.has("query");
  }

  static Map<String, Object> describe(View view) {
    Map<String, Object> described = new HashMap<>();
    described.put("query", view.queryText());
    described.put("schema", view.schema().json());
    described.put("properties", view.properties());
    described.put("catalog", view.currentCatalog());
    described.put("current", view.currentNamespace());
    described.put("configuration", view.sqlConfigs());
    described.put("mode", view.schemaMode());
    described.put("columns", view.queryColumnNames());
    return described;
  }

  static View of(JsonNode kept) {
    return new View.Builder()
        .withSchema(Answers.struct(kept.get("schema")))
        .withProperties(Answers.strings(kept.get("properties")))
        .withQueryText(kept.get("query").asText())
        .withCurrentCatalog(text(kept.get("catalog")))
        .withCurrentNamespace(texts(kept.get("current")))
        .withSqlConfigs(Answers.strings(kept.get("configuration")))
        .withSchemaMode(text(kept.get("mode")))
        .withQueryColumnNames(texts(kept.get("columns")))
        .build();
  }

  private static String text(JsonNode node) {
    return node.isNull() ? null : node.asText();
  }

  private static String[] texts(JsonNode nodes) {
    return JSON.convertValue(nodes, String[].class);
  }
}
