package pyspark.pravega.read;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import pyspark.pravega.bridge.PythonSource;
import pyspark.pravega.catalog.PravegaTable;
import pyspark.pravega.internals.ScansOfPlan;

/** A read of a table that knows what it has read: a statement that replaces the rows it has read must know it, too. */
public interface SeenTable extends Scan {
  PravegaTable table();

  /** The read's options. */
  Map<String, String> options();

  /** As the catalog process told it; null where the read doesn't depend on what the table is now. */
  String seen();

  /** The transaction in which it was planned; null for none. */
  String transaction();

  /** What a statement of a transaction has read that wasn't planned in it, as what was cached before. */
  static List<Map<String, String>> outside(Set<Scan> scans, String transaction) {
    List<Map<String, String>> reads = new ArrayList<>();
    for (Scan scan : scans) {
      if (scan instanceof SeenTable read && read.seen() != null && !transaction.equals(read.transaction())) {
        reads.add(Map.of("stream", read.table().stream(), "seen", read.seen()));
      }
    }
    return reads;
  }

  /** What the statement that is running in this thread has read of a table. */
  static List<String> of(PravegaTable table) {
    return of(scans(), table, Map.of(), null);
  }

  /**
   * What a statement has read of the table that it writes to, by whatever catalog.
   *
   * @param scans those of the statement
   * @param written the table
   * @param options those of the write
   * @param job the write's id, which the table's commit log has while the write runs: so a table of that name is known to
   *     be this one, also where its cluster has another address; null where it has none
   */
  static List<String> of(Set<Scan> scans, PravegaTable written, Map<String, String> options, String job) {
    List<String> seen = new ArrayList<>();
    for (Scan scan : scans) {
      if (scan instanceof SeenTable read
          && read.table().stream().equals(written.stream())
          && read.seen() != null
          && read.isOf(written, options, job)) {
        seen.add(read.seen());
      }
    }
    return seen;
  }

  /** Refuses to write to a table that the statement reads without the catalog: what it sees isn't known then. */
  static void refuseUnknown(Set<Scan> scans, PravegaTable written) {
    List<Map<String, String>> reads = new ArrayList<>();
    for (Scan scan : scans) {
      Map<String, String> options = PythonSource.optionsOf(scan);
      if (options != null) {
        reads.add(options);
      }
    }
    if (!reads.isEmpty()) {
      written.process.callAgain(
          "refuseUnknown", "namespace", written.identifier.namespace(), "table", written.identifier.name(), "reads", reads);
    }
  }

  private boolean isOf(PravegaTable written, Map<String, String> options, String job) {
    if (table().process == written.process && options().isEmpty() && options.isEmpty()) {
      return true;
    }
    return job != null
        && table()
            .process
            .callAgain(
                "hasJob",
                "namespace", table().identifier.namespace(),
                "table", table().identifier.name(),
                "options", options(),
                "job", job)
            .asBoolean();
  }

  /** The scans of the statement that is running in this thread. */
  static Set<Scan> scans() {
    String execution = SparkContext.getOrCreate().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    QueryExecution query = execution == null ? null : SQLExecution.getQueryExecution(Long.parseLong(execution));
    return query == null ? Set.of() : ScansOfPlan.of(query.optimizedPlan());
  }
}
