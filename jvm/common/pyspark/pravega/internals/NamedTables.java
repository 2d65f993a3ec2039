package pyspark.pravega.internals;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.Identifier;
import pyspark.pravega.PravegaCatalog;
import pyspark.pravega.catalog.LookAhead;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * Asks for the tables that a statement names, all together. Spark's analysis asks for one after the other, and each takes
 * some answers of servers. As a rule of hints it runs before that, and knows names of WITH from others already. What a
 * name means Spark settles: one that was guessed wrong is asked for in vain.
 */
final class NamedTables extends Rule<LogicalPlan> {
  private final SparkSession session;

  NamedTables(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    Set<LookAhead.Name> named = new LinkedHashSet<>();
    plan.foreachWithSubqueries(
        node -> {
          if (node instanceof UnresolvedRelation relation
              && !session.sessionState().catalog().isTempView(relation.multipartIdentifier())) {
            name(CollectionConverters.asJava(relation.multipartIdentifier())).ifPresent(named::add);
          }
          return BoxedUnit.UNIT;
        });
    LookAhead.begin(named);
    return plan;
  }

  /** A relation of a catalog of Pravega's. In a view, a name means what it did when the view was made. */
  private Optional<LookAhead.Name> name(List<String> parts) {
    CatalogManager catalogs = session.sessionState().catalogManager();
    List<String> of = CollectionConverters.asJava(AnalysisContext.get().catalogAndNamespace());
    List<String> whole = new ArrayList<>(parts);
    try {
      if (parts.size() == 1 && of.isEmpty()) {
        whole.add(0, catalogs.currentCatalog().name());
        whole.addAll(1, List.of(catalogs.currentNamespace()));
      } else if (parts.size() == 1) {
        whole.addAll(0, of);
      } else if (!catalogs.isCatalogRegistered(parts.get(0))) {
        whole.add(0, of.isEmpty() ? catalogs.currentCatalog().name() : of.get(0));
      }
      if (catalogs.catalog(whole.get(0)) instanceof PravegaCatalog catalog) {
        String[] namespace = whole.subList(1, whole.size() - 1).toArray(new String[0]);
        return Optional.of(new LookAhead.Name(catalog, Identifier.of(namespace, whole.get(whole.size() - 1))));
      }
    } catch (Exception error) {
      // The analysis says what is wrong with a catalog, if it asks for one.
    }
    return Optional.empty();
  }
}
