package pyspark.pravega.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext;
import org.apache.spark.sql.connector.catalog.Identifier;
import pyspark.pravega.PravegaCatalog;

/**
 * Relations that a statement names, asked for all together before Spark asks for one after the other. Each is given out
 * once, to the analysis for which it was asked: so nobody gets what a relation was before his statement began.
 */
public final class LookAhead {
  private static final ThreadLocal<LookAhead> OF_THREAD = new ThreadLocal<>();

  /** What Spark makes anew for each statement that it analyses, and views and subqueries of it share. */
  private final Object statement;

  private final Map<Name, Supplier<JsonNode>> looks = new HashMap<>();

  private LookAhead(Object statement) {
    this.statement = statement;
  }

  /** A relation of a session's catalog. */
  public record Name(PravegaCatalog catalog, Identifier relation) {}

  /** Asks for all relations that a text names, of the statement that this thread analyses, where there are several. */
  public static void begin(Set<Name> named) {
    LookAhead own = OF_THREAD.get();
    if (own == null || own.statement != statement()) {
      OF_THREAD.remove();
      if (named.size() < 2) {
        return;
      }
      own = new LookAhead(statement());
      OF_THREAD.set(own);
    }
    for (Name name : named) {
      own.looks.computeIfAbsent(name, any -> name.catalog.ahead(name.relation));
    }
  }

  /** Waits for the answer about a relation; null where it wasn't asked for. */
  public static Supplier<JsonNode> take(PravegaCatalog catalog, Identifier relation) {
    LookAhead own = OF_THREAD.get();
    return own == null || own.statement != statement() ? null : own.looks.remove(new Name(catalog, relation));
  }

  private static Object statement() {
    return AnalysisContext.get().relationCache();
  }
}
