package pyspark.pravega.internals;

import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.datasources.v2.DataSourceRDDPartition;

/** What a partition of rows is read from: one part at most, since 4.2. */
final class ReadPartitions {
  private ReadPartitions() {}

  static List<InputPartition> of(DataSourceRDDPartition partition) {
    return partition.inputPartition().isDefined() ? List.of(partition.inputPartition().get()) : List.of();
  }
}
