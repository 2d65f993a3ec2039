package pyspark.pravega.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** What the catalog process answers, as values. */
public final class Answers {
  private Answers() {}

  public static StructType struct(JsonNode json) {
    return (StructType) DataType.fromJson(json.asText());
  }

  public static List<String> names(JsonNode array) {
    List<String> names = new ArrayList<>();
    array.forEach(name -> names.add(name.asText()));
    return names;
  }

  public static Map<String, String> strings(JsonNode object) {
    Map<String, String> map = new HashMap<>();
    object.properties().forEach(field -> map.put(field.getKey(), field.getValue().asText()));
    return map;
  }
}
