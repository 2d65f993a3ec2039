package pyspark.pravega.internals;

import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/** Spark's own tasks of Python data sources, row by row; their constructors have another parameter since 4.1. */
public final class PythonTasks {
  private PythonTasks() {}

  public static PartitionReaderFactory readers(UserDefinedPythonDataSource python, byte[] function, StructType schema) {
    return new PythonPartitionReaderFactory(python, function, schema, Option.empty());
  }

  public static DataWriterFactory writers(UserDefinedPythonDataSource python, byte[] function, StructType schema) {
    return new PythonBatchWriterFactory(python, function, schema, Option.empty());
  }
}
