package pyspark.pravega.read;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import scala.Option;

/**
 * When a query reads tables: one moment for each, however often and by whatever names the query reads it.
 *
 * <p>Spark tells a scan nothing of its query. But while it optimizes a query, which is when scans are made, it keeps what
 * times the query's planning in a variable of the thread. Each execution of a query has one of its own: a DataFrame that
 * is executed again reads its tables anew.
 */
public final class Moments {
  private static final Map<QueryPlanningTracker, Moments> QUERIES = Collections.synchronizedMap(new WeakHashMap<>());

  private final Map<String, List<String>> ofStreams = new ConcurrentHashMap<>();

  private Moments() {}

  /** Those of the query that this thread optimizes; where it optimizes none, of one scan. */
  static Moments ofQuery() {
    Option<QueryPlanningTracker> query = QueryPlanningTracker.get();
    return query.isEmpty() ? new Moments() : QUERIES.computeIfAbsent(query.get(), tracker -> new Moments());
  }

  /**
   * Asks the catalog process something about a table, as it is at the query's moment.
   *
   * @param stream the table's
   * @param question is told what is known of that moment, for the parameter {@code moments}
   */
  public JsonNode ask(String stream, Function<List<String>, JsonNode> question) {
    List<String> known = ofStreams.computeIfAbsent(stream, name -> new ArrayList<>());
    synchronized (known) {
      JsonNode answer = question.apply(List.copyOf(known));
      JsonNode told = ((ObjectNode) answer).remove("moment");
      if (told != null && !told.isNull()) {
        known.add(told.asText());
      }
      return answer;
    }
  }
}
