package pyspark.pravega.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.classic.SparkSession;
import pyspark.pravega.PravegaException;

/**
 * The transaction of a session's catalog: the catalog process has all of it but its id, which goes with each statement
 * of the session from its begin to its end.
 */
public final class SessionTransaction {
  private static final String FAILED = "PRAVEGA_TRANSACTION_FAILED";
  private static final String STATE = "25000";
  private static final String ENDS =
      ": commit or roll the transaction back first (CALL system.commit() or CALL system.rollback())";
  /** Those that are open, by their sessions. */
  private static final Map<String, SessionTransaction> OPEN = new ConcurrentHashMap<>();

  private final CatalogProcess process;
  private final String catalog;
  private volatile Begun begun;

  /** A transaction that was begun, and the session in which that was. */
  private record Begun(String id, String session) {}

  public SessionTransaction(CatalogProcess process, String catalog) {
    this.process = process;
    this.catalog = catalog;
  }

  /**
   * The id of the transaction that a statement of this thread is in; null for none. What Spark does in another session
   * for it, as to fill a cache, isn't in it.
   */
  public String id() {
    Begun now = begun;
    return now != null && now.session.equals(session()) ? now.id : null;
  }

  /** The open transaction of a session, whatever its catalog; null for none. */
  public static SessionTransaction of(SparkSession session) {
    return OPEN.isEmpty() ? null : OPEN.get(session.sessionUUID());
  }

  /** The name of its catalog. */
  public String catalog() {
    return catalog;
  }

  /** Refuses what can't be in a transaction. */
  public void refuse(String what) {
    if (id() != null) {
      throw refusal(what);
    }
  }

  /** The error of what can't be in a transaction. */
  public static RuntimeException refusal(String what) {
    return Unchecked.sneak(
        new PravegaException(
            "PRAVEGA_UNSUPPORTED_OPERATION", PravegaException.UNSUPPORTED, what + " can't be in a transaction" + ENDS));
  }

  /** Begins a transaction; with a query and an epoch it is that batch of a streaming query. Returns its id. */
  public synchronized String begin(String query, Long epoch) {
    String session = session();
    SessionTransaction open = OPEN.get(session);
    if (open != null) {
      throw failure(
          "catalog " + open.catalog + " of this session has begun a transaction already, " + open.begun.id + ENDS);
    }
    JsonNode answer =
        process.begin(
            said -> resumption(said.get("transaction").asText()), "beginTransaction", "query", query, "epoch", epoch);
    String id = answer.get("transaction").asText();
    begun = new Begun(id, session);
    OPEN.put(session, this);
    return id;
  }

  private static CatalogProcess.Resumption resumption(String id) {
    return new CatalogProcess.Resumption(id, "resumeTransaction", "transaction", id);
  }

  /** What has become of a transaction: its id, in a word what that is, and the tables that it has written to. */
  public record Ended(String id, String state, List<String> tables) {}

  /** Commits the transaction; it is over then, also where that fails. */
  public synchronized Ended commit() {
    String id = openOne("commit");
    try {
      JsonNode prepared = process.call("prepareTransaction", "transaction", id);
      List<String> tables = new ArrayList<>();
      prepared.get("tables").forEach(name -> tables.add(name.asText()));
      JsonNode committed =
          process.callAgain(
              "commitTransaction", "transaction", id, "prepared", prepared.get("prepared").asText());
      return new Ended(id, committed.get("repeated").asBoolean() ? "REPEATED" : "COMMITTED", tables);
    } catch (Exception error) {
      try {
        process.callAgain("rollBackTransaction", "transaction", id);
      } catch (Exception another) {
        error.addSuppressed(another);
      }
      throw Unchecked.sneak(error);
    } finally {
      over(id);
    }
  }

  /** Throws away what the transaction has written. */
  public synchronized Ended rollBack() {
    String id = openOne("roll back");
    try {
      process.callAgain("rollBackTransaction", "transaction", id);
      return new Ended(id, "ABORTED", List.of());
    } finally {
      over(id);
    }
  }

  private String openOne(String what) {
    String id = id();
    if (id == null) {
      throw failure("there is no transaction to " + what + ": catalog " + catalog + " of this session has begun none");
    }
    return id;
  }

  private void over(String id) {
    process.dismiss(id);
    OPEN.remove(begun.session);
    begun = null;
  }

  private static RuntimeException failure(String message) {
    return Unchecked.sneak(new PravegaException(FAILED, STATE, message));
  }

  private static String session() {
    return SparkSession.active().sessionUUID();
  }
}
