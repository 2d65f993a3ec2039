package pyspark.pravega.internals;

import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.datasources.v2.DataSourceRDDPartition;
import scala.jdk.javaapi.CollectionConverters;

/** What a partition of rows is read from: several parts, before 4.2. */
final class ReadPartitions {
  private ReadPartitions() {}

  static List<InputPartition> of(DataSourceRDDPartition partition) {
    return CollectionConverters.asJava(partition.inputPartitions());
  }
}
