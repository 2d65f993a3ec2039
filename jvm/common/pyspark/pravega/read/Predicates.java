package pyspark.pravega.read;

import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.And;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/** Comparisons of a column with values, as the catalog process reads them; it decides what it makes of them. */
public final class Predicates {
  private Predicates() {}

  public static List<Map<String, Object>> of(Predicate[] predicates) {
    List<Map<String, Object>> found = new ArrayList<>();
    for (Predicate predicate : predicates) {
      add(predicate, found);
    }
    return found;
  }

  private static void add(Predicate predicate, List<Map<String, Object>> found) {
    if (predicate instanceof And both) {
      add(both.left(), found);
      add(both.right(), found);
      return;
    }
    Expression[] children = predicate.children();
    if (children.length < 2 || !(children[0] instanceof NamedReference column) || column.fieldNames().length != 1) {
      return;
    }
    List<Object> values = new ArrayList<>();
    for (int i = 1; i < children.length; i++) {
      Object value = value(children[i]);
      if (value == null && predicate.name().equals("IN") && isNull(children[i])) {
        // What a join's other side tells has nulls, too: no value is one of them.
        continue;
      }
      if (value == null) {
        return;
      }
      values.add(value);
    }
    found.add(Map.of("column", column.fieldNames()[0], "comparison", predicate.name(), "values", values));
  }

  private static boolean isNull(Expression expression) {
    return expression instanceof Literal<?> literal && literal.value() == null;
  }

  /** What a literal is in JSON; null of all that isn't one, or has no such form. */
  static Object value(Expression expression) {
    Object value = expression instanceof Literal<?> literal ? literal.value() : null;
    if (value instanceof UTF8String text && !text.isValid()) {
      // As a Java text its bytes would be others, which sort elsewhere.
      return null;
    }
    if (value instanceof UTF8String || value instanceof Decimal) {
      return value.toString();
    }
    if (value instanceof byte[] bytes) {
      return HexFormat.of().formatHex(bytes);
    }
    return value instanceof Number || value instanceof Boolean ? value : null;
  }
}
