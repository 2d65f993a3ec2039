package pyspark.pravega.read;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.And;
import org.apache.spark.sql.connector.expressions.filter.Not;
import org.apache.spark.sql.connector.expressions.filter.Or;
import org.apache.spark.sql.connector.expressions.filter.Predicate;

/** Whole conditions as trees, for the catalog process; what it can't be told is null. */
final class Conditions {
  private static final Map<String, String> MIRRORED =
      Map.of("=", "=", "<=>", "<=>", "<>", "<>", "<", ">", ">", "<", "<=", ">=", ">=", "<=");

  private Conditions() {}

  /** All of the predicates at once; null where nothing can be told of any. */
  static Map<String, Object> of(List<Predicate> predicates) {
    return several("all", predicates.stream().map(Conditions::of).toList(), false);
  }

  private static Map<String, Object> of(Predicate predicate) {
    if (predicate instanceof And both) {
      return several("all", Arrays.asList(of(both.left()), of(both.right())), false);
    }
    if (predicate instanceof Or either) {
      return several("any", Arrays.asList(of(either.left()), of(either.right())), true);
    }
    if (predicate instanceof Not not) {
      Map<String, Object> child = of(not.child());
      return child == null ? null : Map.of("not", child);
    }
    return comparison(predicate.name(), predicate.children());
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
        || column.fieldNames().length != 1) {
      return null;
    }
    List<Object> values = new ArrayList<>();
    for (int i = 1; i < children.length; i++) {
      Object value = Predicates.value(children[i]);
      if (value == null) {
        return null;
      }
      values.add(value);
    }
    return Map.of("column", column.fieldNames()[0], "comparison", name, "values", values);
  }
}
