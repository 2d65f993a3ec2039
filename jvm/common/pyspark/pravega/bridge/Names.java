package pyspark.pravega.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;

/** Names of columns and relations as Spark takes them. */
public final class Names {
  private Names() {}

  /** A column's name as Spark parses it, whatever letters it has. */
  public static String quoted(String name) {
    return "`" + name.replace("`", "``") + "`";
  }

  public static NamedReference[] references(List<String> columns) {
    return columns.stream().map(name -> Expressions.column(quoted(name))).toArray(NamedReference[]::new);
  }

  public static Identifier[] identifiers(String[] namespace, JsonNode names) {
    List<Identifier> identifiers = new ArrayList<>();
    names.forEach(found -> identifiers.add(Identifier.of(namespace, found.asText())));
    return identifiers.toArray(new Identifier[0]);
  }
}
