package pyspark.pravega.read;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.And;
import org.apache.spark.sql.connector.expressions.filter.Not;
import org.apache.spark.sql.connector.expressions.filter.Or;
import org.apache.spark.sql.connector.expressions.filter.Predicate;

/** Whole conditions as trees, for the catalog process; what it can't be told is null. */
final class Conditions {
  private static final Map<String, String> MIRRORED =
      Map.of("=", "=", "<=>", "<=>", "<>", "<>", "<", ">", ">", "<", "<=", ">=", ">=", "<=");

  private static final String IN = "IN";

  /** A join's other side may tell millions of values. */
  private static final int MOST_VALUES = 10_000;

  /** JSON that is much deeper isn't written, or not read. */
  private static final int DEEPEST = 50;

  private Conditions() {}

  /** All of the predicates at once; null where nothing can be told of any. */
  static Map<String, Object> of(List<Predicate> predicates) {
    return several("all", predicates.stream().map(predicate -> of(predicate, 0)).toList(), false);
  }

  private static Map<String, Object> of(Predicate predicate, int depth) {
    if (depth > DEEPEST) {
      return null;
    }
    if (predicate instanceof And || predicate instanceof Or) {
      boolean either = predicate instanceof Or;
      List<Map<String, Object>> parts =
          joined(predicate).stream().map(part -> of(part, depth + 1)).toList();
      return several(either ? "any" : "all", parts, either);
    }
    if (predicate instanceof Not not) {
      Map<String, Object> child = of(not.child(), depth + 1);
      return child == null ? null : Map.of("not", child);
    }
    return comparison(predicate.name(), predicate.children());
  }

  /** What AND joins, or OR: Spark gives a tree of pairs, which may be thousands deep. */
  private static List<Predicate> joined(Predicate whole) {
    List<Predicate> parts = new ArrayList<>();
    Deque<Predicate> left = new ArrayDeque<>(List.of(whole));
    while (!left.isEmpty()) {
      Predicate next = left.pop();
      if (next.getClass() == whole.getClass()) {
        left.push((Predicate) next.children()[1]);
        left.push((Predicate) next.children()[0]);
      } else {
        parts.add(next);
      }
    }
    return parts;
  }

  /** Several as one; null where none can be told, or one of them can't that all the others rest on. */
  private static Map<String, Object> several(String how, List<Map<String, Object>> parts, boolean needsAll) {
    long unknown = parts.stream().filter(part -> part == null).count();
    if (unknown == parts.size() || needsAll && unknown > 0) {
      return null;
    }
    Map<String, Object> all = new HashMap<>();
    all.put(how, parts);
    return all;
  }

  private static Map<String, Object> comparison(String name, Expression[] children) {
    if (children.length == 2
        && children[1] instanceof NamedReference
        && !(children[0] instanceof NamedReference)
        && MIRRORED.containsKey(name)) {
      return comparison(MIRRORED.get(name), new Expression[] {children[1], children[0]});
    }
    if (children.length == 0
        || !(children[0] instanceof NamedReference column)
        || column.fieldNames().length != 1
        || children.length > MOST_VALUES) {
      return null;
    }
    List<Object> values = new ArrayList<>();
    for (int i = 1; i < children.length; i++) {
      if (IN.equals(name) && children[i] instanceof Literal<?> literal && literal.value() == null) {
        // No row is in a list because of a null in it.
        continue;
      }
      Object value = Predicates.value(children[i]);
      if (value == null) {
        return null;
      }
      values.add(value);
    }
    return Map.of("column", column.fieldNames()[0], "comparison", name, "values", values);
  }
}
