package pyspark.pravega.read;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import pyspark.pravega.bridge.CatalogProcess;
import pyspark.pravega.catalog.PravegaTable;
import scala.Option;

/**
 * When a query reads tables: one moment for each, however often and by whatever names the query reads it.
 *
 * <p>Spark tells a scan nothing of its query. But while it optimizes a query, which is when scans are made, it keeps what
 * times the query's planning in a variable of the thread. Each execution of a query has one of its own: a DataFrame that
 * is executed again reads its tables anew.
 */
public final class Moments {
  private static final String TABLE_TYPE = "table-type";
  private static final String KEY_VALUE = "key-value";
  private static final Map<QueryPlanningTracker, Moments> QUERIES = Collections.synchronizedMap(new WeakHashMap<>());

  private final Map<String, List<String>> ofStreams = new ConcurrentHashMap<>();
  /** The tables that the query reads as they are now, by their streams. */
  private final Map<String, CatalogProcess> expected = new ConcurrentHashMap<>();

  /** The query's reads that nobody has asked to plan yet. */
  private final List<PravegaBatch.Read> unplanned = new ArrayList<>();
  private final List<Plan> plans = new ArrayList<>();

  private Moments() {}

  /** How a read is planned in a transaction, or will be. */
  private record Plan(PravegaBatch.Read read, String transaction, Supplier<JsonNode> answer) {
    boolean is(PravegaBatch.Read other, String of) {
      return Objects.equals(transaction, of) && read.isPlannedAs(other);
    }
  }

  /** Those of the query that this thread optimizes; where it optimizes none, of one scan. */
  static Moments ofQuery() {
    Option<QueryPlanningTracker> query = QueryPlanningTracker.get();
    return query.isEmpty() ? new Moments() : QUERIES.computeIfAbsent(query.get(), tracker -> new Moments());
  }

  /** Tells of a table that the query reads, before any of its scans is made: so all are read at one moment. */
  public static void expect(PravegaTable table) {
    if (table.position() == null && !KEY_VALUE.equals(table.known().get(TABLE_TYPE))) {
      ofQuery().expected.putIfAbsent(table.stream(), table.process);
    }
  }

  /** Tells of a read that is to be planned. */
  synchronized void add(PravegaBatch.Read read) {
    unplanned.add(read);
  }

  /**
   * Plans a read, and begins to plan the query's others: Spark asks for one after the other. Reads that are
   * planned alike have one plan.
   *
   * @param transaction in which it is read; null for none
   */
  JsonNode plan(PravegaBatch.Read read, String transaction) {
    Supplier<JsonNode> begun = planOf(read, transaction);
    JsonNode plan = begun == null ? read.plan(transaction) : begun.get();
    synchronized (this) {
      if (begun == null) {
        plans.add(new Plan(read, transaction, () -> plan));
      }
      unplanned.remove(read);
      // With its moment this read has told theirs.
      for (PravegaBatch.Read other : List.copyOf(unplanned)) {
        List<String> known = ofStreams.get(other.table().stream());
        if (known == null) {
          continue;
        }
        synchronized (known) {
          if (!known.isEmpty()) {
            unplanned.remove(other);
            if (planOf(other, transaction) == null) {
              plans.add(new Plan(other, transaction, other.ahead(List.copyOf(known), transaction)));
            }
          }
        }
      }
    }
    return plan;
  }

  private synchronized Supplier<JsonNode> planOf(PravegaBatch.Read read, String transaction) {
    return plans.stream().filter(one -> one.is(read, transaction)).map(Plan::answer).findFirst().orElse(null);
  }

  /** A question about a table: what is known of its moment, and the streams whose moments are to be told with it. */
  public interface Question {
    JsonNode ask(List<String> moments, List<String> beside);
  }

  /**
   * Asks the catalog process something about a table, as it is at the query's moment. The first question is for the
   * moment of all tables that the query reads.
   *
   * @param table the table
   * @param question is told what is known, for the parameters {@code moments} and {@code beside}
   */
  public JsonNode ask(PravegaTable table, Question question) {
    List<String> beside = List.of();
    if (expected.size() > (expected.containsKey(table.stream()) ? 1 : 0) && isUnknown(table.stream())) {
      beside =
          expected.entrySet().stream()
              .filter(one -> one.getValue() == table.process && !one.getKey().equals(table.stream()))
              .map(Map.Entry::getKey)
              .filter(this::isUnknown)
              .toList();
    }
    List<String> named = beside;
    JsonNode answer = ask(table.stream(), known -> question.ask(known, named));
    JsonNode others = ((ObjectNode) answer).remove("beside");
    if (others != null) {
      for (String stream : beside) {
        if (others.hasNonNull(stream)) {
          List<String> known = ofStreams.computeIfAbsent(stream, name -> new ArrayList<>());
          synchronized (known) {
            known.add(others.get(stream).asText());
          }
        }
      }
    }
    return answer;
  }

  private boolean isUnknown(String stream) {
    List<String> known = ofStreams.get(stream);
    return known == null || known.isEmpty();
  }

  /**
   * As for a table, of its stream only.
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
