package pyspark.pravega.internals;

import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.api.python.PythonEvalType;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/** Spark's Arrow runner for one function, from batches of one column to batches; 4.1's. */
@SuppressWarnings("unchecked") // Scala's generic methods, as Java sees them
abstract class ArrowRunner extends ArrowPythonRunner {
  /** How many options Spark's constructor has last. */
  static final int OPTIONS = 3;

  ArrowRunner(
      Seq<Tuple2<ChainedPythonFunctions, Object>> function,
      StructType input,
      String timeZone,
      Map<String, String> runnerConf,
      Map<String, SQLMetric> counts) {
    super(
        function,
        PythonEvalType.SQL_MAP_ARROW_ITER_UDF(),
        new int[][] {{0}},
        input,
        timeZone,
        false,
        runnerConf,
        counts,
        Option.empty(),
        Option.empty(),
        Option.empty());
  }
}
