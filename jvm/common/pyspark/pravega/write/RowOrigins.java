package pyspark.pravega.write;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import pyspark.pravega.catalog.PravegaTable;
import pyspark.pravega.internals.RunningQuery;
import pyspark.pravega.read.SeenTable;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/** Where the rows that a streaming query writes come from, as its plan tells. What may be written so, Python decides. */
final class RowOrigins {
  /** Of one row they make one row or none, and keep the rows' order. */
  private static final Set<String> ROW_BY_ROW = Set.of("Project", "Filter", "SubqueryAlias", "View");

  private RowOrigins() {}

  /**
   * What the plan of a query tells; null where the query isn't known.
   *
   * @param query its id
   * @param written the table that it writes to
   */
  static Map<String, Object> of(String query, PravegaTable written) {
    LogicalPlan plan = RunningQuery.plan(query);
    if (plan == null) {
      return null;
    }
    // Spark puts the write on top.
    LogicalPlan rows = plan.nodeName().startsWith("WriteTo") ? plan.children().head() : plan;
    List<Map<String, Object>> sources = new ArrayList<>();
    List<String> operators = new ArrayList<>();
    rows.foreach(
        node -> {
          SeenTable read = node.children().isEmpty() && node.isStreaming() ? readOf(node) : null;
          if (read != null) {
            boolean here = read.table().process == written.process;
            sources.add(Map.of("stream", read.table().stream(), "options", read.options(), "here", here));
          } else if (!ROW_BY_ROW.contains(node.nodeName())) {
            operators.add(node.nodeName());
          }
          return BoxedUnit.UNIT;
        });
    return Map.of("query", query, "sources", sources, "operators", operators, "columns", columns(rows));
  }

  /** For each column of the source that comes through as it is: the name under which it comes, and its own. */
  private static Map<String, String> columns(LogicalPlan rows) {
    Map<String, String> columns = new HashMap<>();
    Set<String> others = new HashSet<>();
    for (Attribute one : CollectionConverters.asJava(rows.output())) {
      String origin = origin(one.exprId(), rows);
      if (columns.containsKey(one.name()) || origin == null) {
        others.add(one.name());
      }
      if (origin != null) {
        columns.put(one.name(), origin);
      }
    }
    columns.keySet().removeAll(others);
    return columns;
  }

  private static String origin(ExprId id, LogicalPlan plan) {
    if (plan instanceof Project project) {
      for (NamedExpression one : CollectionConverters.asJava(project.projectList())) {
        if (one.exprId().equals(id)) {
          if (one instanceof Attribute) {
            return origin(id, project.child());
          }
          return one instanceof Alias alias && alias.child() instanceof Attribute under
              ? origin(under.exprId(), project.child())
              : null;
        }
      }
      return null;
    }
    if (plan.children().isEmpty()) {
      for (Attribute one : CollectionConverters.asJava(plan.output())) {
        if (one.exprId().equals(id)) {
          return one.name();
        }
      }
      return null;
    }
    return plan.children().size() == 1 ? origin(id, plan.children().head()) : null;
  }

  /** The read of a table of Pravega that a leaf is, whatever its class; else null. */
  private static SeenTable readOf(LogicalPlan leaf) {
    for (Object part : CollectionConverters.asJava(leaf.productIterator().toSeq())) {
      if (part instanceof SeenTable read) {
        return read;
      }
    }
    return null;
  }
}
