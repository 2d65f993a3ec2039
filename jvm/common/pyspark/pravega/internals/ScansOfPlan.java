package pyspark.pravega.internals;

import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Set;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.ExternalRDD;
import org.apache.spark.sql.execution.ExternalRDDScanExec;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.RDDScanExec;
import org.apache.spark.sql.execution.ReusedSubqueryExec;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.DataSourceRDD;
import org.apache.spark.sql.execution.datasources.v2.DataSourceRDDPartition;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * All scans of a plan, those included that stand in plans which Spark hides in leaves: of cached rows, of adaptive
 * execution, of rows that came as an RDD. An RDD that was checkpointed doesn't tell any more where its rows came from.
 */
public final class ScansOfPlan {
  private final Set<Scan> scans = Collections.newSetFromMap(new IdentityHashMap<>());
  private final Set<QueryPlan<?>> plans = Collections.newSetFromMap(new IdentityHashMap<>());
  private final Set<Integer> rdds = new HashSet<>();

  private ScansOfPlan() {}

  public static Set<Scan> of(QueryPlan<?> plan) {
    ScansOfPlan found = new ScansOfPlan();
    found.collect(plan);
    return found.scans;
  }

  private void collect(QueryPlan<?> plan) {
    if (plans.add(plan)) {
      plan.foreachWithSubqueries(
          node -> {
            look(node);
            return BoxedUnit.UNIT;
          });
    }
  }

  private void look(Object node) {
    if (node instanceof DataSourceV2ScanRelation relation) {
      scans.add(relation.scan());
    } else if (node instanceof BatchScanExec scan) {
      scans.add(scan.scan());
    } else if (node instanceof InMemoryRelation cached) {
      collect(cached.cachedPlan());
    } else if (node instanceof InMemoryTableScanExec cached) {
      collect(cached.relation().cachedPlan());
    } else if (node instanceof AdaptiveSparkPlanExec adaptive) {
      collect(adaptive.inputPlan());
    } else if (node instanceof QueryStageExec stage) {
      collect(stage.plan());
    } else if (node instanceof ReusedExchangeExec reused) {
      collect(reused.child());
    } else if (node instanceof ReusedSubqueryExec reused) {
      collect(reused.child());
    } else if (node instanceof LocalTableScanExec local) {
      // The rows of a scan that has read nothing, as of a counted one.
      local.logicalLink().foreach(logical -> {
        collect(logical);
        return BoxedUnit.UNIT;
      });
    } else if (node instanceof LogicalRDD rows) {
      collect(rows.rdd());
    } else if (node instanceof RDDScanExec rows) {
      collect(rows.rdd());
    } else if (node instanceof ExternalRDD<?> rows) {
      collect(rows.rdd());
    } else if (node instanceof ExternalRDDScanExec<?> rows) {
      collect(rows.rdd());
    }
  }

  private void collect(RDD<?> rows) {
    Deque<RDD<?>> left = new ArrayDeque<>();
    left.add(rows);
    while (!left.isEmpty()) {
      RDD<?> rdd = left.remove();
      if (!rdds.add(rdd.id())) {
        continue;
      }
      if (rdd instanceof DataSourceRDD source) {
        for (Partition partition : source.partitions()) {
          if (partition instanceof DataSourceRDDPartition held) {
            look(held);
          }
        }
      }
      for (Dependency<?> dependency : CollectionConverters.asJava(rdd.dependencies())) {
        left.add(dependency.rdd());
      }
    }
  }

  private void look(DataSourceRDDPartition partition) {
    for (InputPartition part : ReadPartitions.of(partition)) {
      if (part instanceof ScannedPartition scanned) {
        scans.add(scanned.scan());
      }
    }
  }
}
