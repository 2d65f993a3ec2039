package pyspark.pravega;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.runtime.BoxedUnit;

/** A read of a table that knows what it has read: a statement that replaces the rows it has read must know it, too. */
interface SeenTable extends Scan {
  PravegaTable table();

  /** As the catalog process told it; null where the read doesn't depend on what the table is now. */
  String seen();

  /** What the statement that is running in this thread has read of a table. */
  static List<String> of(PravegaTable table) {
    String execution = SparkContext.getOrCreate().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    QueryExecution query = execution == null ? null : SQLExecution.getQueryExecution(Long.parseLong(execution));
    List<String> seen = new ArrayList<>();
    if (query != null) {
      collect(query.optimizedPlan(), table, seen);
    }
    return seen;
  }

  private static void collect(QueryPlan<?> plan, PravegaTable table, List<String> seen) {
    plan.foreachWithSubqueries(
        node -> {
          if (node instanceof DataSourceV2ScanRelation relation) {
            add(relation.scan(), table, seen);
          } else if (node instanceof BatchScanExec scan) {
            add(scan.scan(), table, seen);
          } else if (node instanceof InMemoryRelation cached) {
            collect(cached.cachedPlan(), table, seen);
          }
          return BoxedUnit.UNIT;
        });
  }

  private static void add(Scan scan, PravegaTable table, List<String> seen) {
    if (scan instanceof SeenTable read && read.table().stream().equals(table.stream()) && read.seen() != null) {
      seen.add(read.seen());
    }
  }
}
