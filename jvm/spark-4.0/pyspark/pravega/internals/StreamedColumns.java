package pyspark.pravega.internals;

import java.util.UUID;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/** The columns of a streaming read. Before 4.2 Spark doesn't say which ones it wants, and leaves metadata columns out. */
public final class StreamedColumns {
  private static final String QUERY = "sql.streaming.queryId";

  private StreamedColumns() {}

  /**
   * What the query that starts in this thread expects of a table, in its order.
   *
   * @param table the table that is read
   * @param columns those that Spark has asked for
   * @return the columns; with all metadata columns behind them where the query wants some of these
   */
  public static StructType of(Table table, StructType columns) {
    SparkSession session = SparkSession.active();
    String query = session.sparkContext().getLocalProperty(QUERY);
    var execution = query == null ? null : session.sharedState().activeStreamingQueries().get(UUID.fromString(query));
    if (execution == null) {
      return columns;
    }
    StructType[] found = {columns};
    execution
        .analyzedPlan()
        .foreach(
            node -> {
              if (node instanceof StreamingRelationV2 relation
                  && relation.table() == table
                  && relation.output().length() > found[0].length()) {
                StructType wanted = new StructType();
                for (AttributeReference column : CollectionConverters.asJava(relation.output())) {
                  wanted = wanted.add(column.name(), column.dataType(), column.nullable());
                }
                found[0] = wanted;
              }
              return BoxedUnit.UNIT;
            });
    return found[0];
  }
}
