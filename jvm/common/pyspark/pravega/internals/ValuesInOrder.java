package pyspark.pravega.internals;

import org.apache.spark.sql.catalyst.plans.logical.LeafNode;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Repartition;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import pyspark.pravega.catalog.PravegaTable;

/**
 * The rows of a VALUES clause stay in their order where they go into a table with a key, in which the last one of a key
 * wins: Spark would give each of a few rows to a task of its own.
 */
final class ValuesInOrder extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan instanceof V2WriteCommand write
        && write.table() instanceof DataSourceV2Relation relation
        && relation.table() instanceof PravegaTable table
        && !table.primaryKey().isEmpty()
        && areValues(write.query())) {
      return (LogicalPlan) write.withNewQuery(new Repartition(1, false, write.query()));
    }
    return plan;
  }

  private static boolean areValues(LogicalPlan query) {
    LogicalPlan plan = query;
    while (plan instanceof Project || plan instanceof SubqueryAlias) {
      plan = plan.children().head();
    }
    // Of one with current_date() and its like the rows are made later.
    return plan instanceof LocalRelation
        || plan instanceof LeafNode && plan.getClass().getSimpleName().equals("ResolvedInlineTable");
  }
}
