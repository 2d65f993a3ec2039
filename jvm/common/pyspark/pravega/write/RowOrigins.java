package pyspark.pravega.write;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PosExplode;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import pyspark.pravega.catalog.PravegaTable;
import pyspark.pravega.internals.RunningQuery;
import pyspark.pravega.read.SeenTable;
import scala.jdk.javaapi.CollectionConverters;

/** Where the rows that a streaming query writes come from, as its plan tells. What may be written so, Python decides. */
final class RowOrigins {
  /** Of one row they make one row or none, and keep the rows' order. */
  private static final Set<String> ROW_BY_ROW = Set.of("Project", "Filter", "SubqueryAlias", "View", "Union", "Generate");

  private final PravegaTable written;
  private final List<Map<String, Object>> sources = new ArrayList<>();
  private final List<String> operators = new ArrayList<>();

  private RowOrigins(PravegaTable written) {
    this.written = written;
  }

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
    Map<String, ExprId> columns = new LinkedHashMap<>();
    Set<String> twice = new HashSet<>();
    for (Attribute one : CollectionConverters.asJava(rows.output())) {
      if (columns.put(one.name(), one.exprId()) != null) {
        twice.add(one.name());
      }
    }
    columns.keySet().removeAll(twice);
    RowOrigins origins = new RowOrigins(written);
    origins.follow(rows, new Branch(columns, List.of(), Set.of(), true));
    return Map.of("query", query, "sources", origins.sources, "operators", origins.operators);
  }

  /**
   * The way from the rows down to a source.
   *
   * @param columns the rows' columns that come from here as they are, and what they are here
   * @param generators what makes several rows of one
   * @param positions the rows' columns that say the which one of these a row is
   * @param repeats whether what feeds the generators gives the same each time
   */
  private record Branch(Map<String, ExprId> columns, List<String> generators, Set<String> positions, boolean repeats) {
    Branch with(Map<String, ExprId> others) {
      return new Branch(others, generators, positions, repeats);
    }

    /** Below an operator that may give other rows each time. */
    Branch changing() {
      return new Branch(columns, generators, positions, generators.isEmpty() && repeats);
    }
  }

  private void follow(LogicalPlan node, Branch branch) {
    SeenTable read = node.children().isEmpty() && node.isStreaming() ? readOf(node) : null;
    if (read != null) {
      sources.add(source(node, read, branch));
      return;
    }
    if (!ROW_BY_ROW.contains(node.nodeName())) {
      operators.add(node.nodeName());
    }
    if (!node.subqueries().isEmpty()) {
      // It becomes a join, perhaps one that shuffles.
      operators.add("a subquery");
    }
    if (node instanceof Generate generate) {
      follow(generate.child(), generated(generate, branch));
      return;
    }
    boolean repeats = CollectionConverters.asJava(node.expressions()).stream().allMatch(RowOrigins::repeats);
    Branch own = repeats ? branch : branch.changing();
    List<LogicalPlan> children = CollectionConverters.asJava(node.children());
    for (int child = 0; child < children.size(); child++) {
      Map<String, ExprId> columns = new HashMap<>();
      for (Map.Entry<String, ExprId> column : own.columns().entrySet()) {
        ExprId below = below(node, column.getValue(), child);
        if (below != null) {
          columns.put(column.getKey(), below);
        }
      }
      follow(children.get(child), own.with(columns));
    }
  }

  private static Branch generated(Generate generate, Branch branch) {
    Expression generator = (Expression) generate.generator();
    List<String> generators = new ArrayList<>(branch.generators());
    generators.add(generator.prettyName());
    List<Attribute> made = CollectionConverters.asJava(generate.generatorOutput());
    Map<String, ExprId> columns = new HashMap<>(branch.columns());
    Set<String> positions = new HashSet<>();
    for (int i = 0; i < made.size(); i++) {
      ExprId id = made.get(i).exprId();
      for (Map.Entry<String, ExprId> column : branch.columns().entrySet()) {
        if (column.getValue().equals(id)) {
          columns.remove(column.getKey());
          if (i == 0 && generator instanceof PosExplode) {
            positions.add(column.getKey());
          }
        }
      }
    }
    return new Branch(columns, generators, positions, branch.repeats() && repeats(generator));
  }

  /** Whether it gives the same of an event whenever that comes; the time of day doesn't. */
  private static boolean repeats(Expression expression) {
    return expression.deterministic() && !expression.containsPattern(TreePattern.CURRENT_LIKE());
  }

  /** What a column is in an operator's child, if it comes from there as it is; else null. */
  private static ExprId below(LogicalPlan node, ExprId id, int child) {
    if (node instanceof Project project) {
      for (NamedExpression one : CollectionConverters.asJava(project.projectList())) {
        if (one.exprId().equals(id)) {
          if (one instanceof Attribute) {
            return id;
          }
          return one instanceof Alias alias && alias.child() instanceof Attribute under ? under.exprId() : null;
        }
      }
      return null;
    }
    if (node instanceof Union union) {
      List<Attribute> all = CollectionConverters.asJava(union.output());
      for (int i = 0; i < all.size(); i++) {
        if (all.get(i).exprId().equals(id)) {
          return union.children().apply(child).output().apply(i).exprId();
        }
      }
      return null;
    }
    return node.children().size() == 1 ? id : null;
  }

  private Map<String, Object> source(LogicalPlan leaf, SeenTable read, Branch branch) {
    Map<ExprId, String> own = new HashMap<>();
    for (Attribute one : CollectionConverters.asJava(leaf.output())) {
      own.put(one.exprId(), one.name());
    }
    Map<String, String> columns = new HashMap<>();
    branch.columns().forEach((name, id) -> columns.computeIfAbsent(name, any -> own.get(id)));
    return Map.of(
        "stream", read.table().stream(),
        "options", read.options(),
        "here", read.table().process == written.process,
        "own", List.of(read.table().schema().fieldNames()),
        "columns", columns,
        "generators", branch.generators(),
        "positions", branch.positions(),
        "repeats", branch.repeats());
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
