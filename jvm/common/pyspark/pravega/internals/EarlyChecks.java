package pyspark.pravega.internals;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BinaryArithmetic;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import pyspark.pravega.bridge.PythonSource;
import pyspark.pravega.bridge.SessionTransaction;
import pyspark.pravega.catalog.PravegaTable;
import pyspark.pravega.read.Moments;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * What is wrong with a statement and can be seen in its plan: said when it is analysed, before a job or a query starts.
 * Spark finds this class itself, and takes it into each session that begins while the jar is there.
 */
public final class EarlyChecks implements SparkSessionExtensionsProvider {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectHintResolutionRule(session -> new NamedTables((SparkSession) session));
    // Not as rules that check: Spark adds the plan to what these throw, and takes the SQLSTATE away.
    extensions.injectPostHocResolutionRule(session -> new Look(EarlyChecks::checkReads));
    extensions.injectPostHocResolutionRule(session -> new Look(EarlyChecks::checkKeys));
    extensions.injectPostHocResolutionRule(
        session -> new Look(node -> checkTransaction((SparkSession) session, node)));
    extensions.injectPostHocResolutionRule(session -> new ValuesInOrder());
    // Older Sparks make the plans of UPDATE and MERGE behind those, when nothing but a rule that checks comes any more.
    extensions.injectPlanNormalizationRule(session -> new Look(EarlyChecks::checkKeys));
    return BoxedUnit.UNIT;
  }

  /** Looks at each node of a plan, and leaves it as it is. */
  private static final class Look extends Rule<LogicalPlan> {
    private final Consumer<LogicalPlan> check;

    Look(Consumer<LogicalPlan> check) {
      this.check = check;
    }

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      plan.foreach(
          node -> {
            check.accept(node);
            return BoxedUnit.UNIT;
          });
      return plan;
    }
  }

  /** Reads and their options, which Spark looks at when it plans a query, and of a streaming one when it runs. */
  private static void checkReads(LogicalPlan node) {
    if (node instanceof StreamingRelationV2 relation && relation.table() instanceof PravegaTable table) {
      table.checkStream(relation.extraOptions().asCaseSensitiveMap());
    } else if (node instanceof StreamingRelationV2 relation) {
      PythonSource.checkStream(relation);
    } else if (node instanceof DataSourceV2Relation relation && relation.table() instanceof PravegaTable table) {
      table.checkOptions(relation.options().asCaseSensitiveMap());
      if (relation.options().isEmpty()) {
        Moments.expect(table);
      }
    }
  }

  /** Refuses tables of Pravega's that the session's transaction doesn't know of: they are read and written beside it. */
  private static void checkTransaction(SparkSession session, LogicalPlan node) {
    SessionTransaction open = SessionTransaction.of(session);
    if (open == null) {
      return;
    }
    LogicalPlan relation = node instanceof V2WriteCommand write && write.table() instanceof LogicalPlan to ? to : node;
    if (!(relation instanceof DataSourceV2Relation found)) {
      return;
    }
    if (found.table() instanceof PravegaTable table && table.transaction != open) {
      throw SessionTransaction.refusal(
          "table " + table.name() + ", as it is another catalog's than " + open.catalog() + ", which has begun it, and so");
    }
    if (PythonSource.isOwn(found.table())) {
      throw SessionTransaction.refusal("format(\"pravega\"), which knows no session,");
    }
  }

  /** Refuses UPDATE and MERGE that would change keys: a task would find that out, row by row. */
  private static void checkKeys(LogicalPlan node) {
    if (node instanceof WriteDelta write
        && write.originalTable() instanceof DataSourceV2Relation relation
        && relation.table() instanceof PravegaTable table) {
      new Keys(table, conditions(write.query())).check(write.query());
    }
  }

  /** All that is true of each row of a plan, in pieces. */
  private static List<Expression> conditions(LogicalPlan plan) {
    List<Expression> all = new ArrayList<>();
    plan.foreach(
        node -> {
          if (node instanceof Filter filter) {
            split(filter.condition(), all);
          } else if (node instanceof Join join && join.condition().isDefined()) {
            split(join.condition().get(), all);
          }
          return BoxedUnit.UNIT;
        });
    return all;
  }

  private static void split(Expression condition, List<Expression> all) {
    if (condition instanceof And and) {
      split(and.left(), all);
      split(and.right(), all);
    } else {
      all.add(condition);
    }
  }

  /** Spark casts values to a column's type, looks whether they are null, and may name them. */
  private static Expression plain(Expression expression) {
    Expression plain = expression;
    while (plain instanceof Cast || plain instanceof AssertNotNull || plain instanceof Alias) {
      plain = plain.children().head();
    }
    return plain;
  }

  /** What a statement's plan makes of keys: a row that changes is one that is deleted and one that is inserted. */
  private record Keys(PravegaTable table, List<Expression> conditions) {
    void check(LogicalPlan query) {
      query.foreach(
          node -> {
            if (node instanceof Expand expand && expand.projections().size() == 2) {
              check(expand.output(), expand.projections().apply(0), expand.projections().apply(1));
            } else if (node instanceof MergeRows merge) {
              checkAll(merge, merge.matchedInstructions());
              checkAll(merge, merge.notMatchedBySourceInstructions());
            }
            return BoxedUnit.UNIT;
          });
    }

    private void checkAll(MergeRows merge, Seq<MergeRows.Instruction> instructions) {
      for (MergeRows.Instruction one : CollectionConverters.asJava(instructions)) {
        if (one instanceof MergeRows.Split split) {
          check(merge.output(), split.output(), split.otherOutput());
        }
      }
    }

    /** Refuses what is another key for sure, or for all rows but one. Of all else only the rows tell. */
    private void check(
        Seq<? extends Expression> output, Seq<Expression> deleted, Seq<Expression> inserted) {
      for (int at = 0; at < output.size(); at++) {
        String name = ((Attribute) output.apply(at)).name();
        if (table.primaryKey().contains(name)) {
          Expression before = plain(deleted.apply(at));
          Expression after = plain(inserted.apply(at));
          if (isOther(before, after) && !isSame(before, after)) {
            table.refuseOtherKey(name);
          }
        }
      }
    }

    /** A value that is the same for all rows, or the key with something added to it. */
    private static boolean isOther(Expression before, Expression after) {
      return after.foldable()
          || after instanceof BinaryArithmetic sum
              && (plain(sum.left()).semanticEquals(before) && sum.right().foldable()
                  || plain(sum.right()).semanticEquals(before) && sum.left().foldable());
    }

    private boolean isSame(Expression before, Expression after) {
      return after.semanticEquals(before)
          || conditions.stream().anyMatch(one -> one instanceof EqualTo equal && tells(equal, before, after));
    }

    private static boolean tells(EqualTo equal, Expression before, Expression after) {
      Expression left = plain(equal.left());
      Expression right = plain(equal.right());
      return left.semanticEquals(before) && right.semanticEquals(after)
          || right.semanticEquals(before) && left.semanticEquals(after);
    }
  }
}
