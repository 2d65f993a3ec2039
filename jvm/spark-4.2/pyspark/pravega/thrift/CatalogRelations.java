package pyspark.pravega.thrift;

import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Relation;
import org.apache.spark.sql.connector.catalog.RelationCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.ViewCatalog;

/** What a catalog has, since 4.2 views, too. */
final class CatalogRelations {
  private CatalogRelations() {}

  /** Whether a catalog knows by a name alone whether it is a table or a view. */
  static boolean knows(CatalogPlugin catalog) {
    return catalog instanceof RelationCatalog;
  }

  static boolean hasViews(CatalogPlugin catalog) {
    return catalog instanceof ViewCatalog;
  }

  static Identifier[] views(CatalogPlugin catalog, String[] namespace) throws Exception {
    return ((ViewCatalog) catalog).listViews(namespace);
  }

  /** A table, or a view where a catalog has some. */
  static Described load(CatalogPlugin catalog, Identifier identifier, boolean isView) throws Exception {
    if (catalog instanceof RelationCatalog both) {
      return described(both.loadRelation(identifier));
    }
    if (isView && catalog instanceof ViewCatalog views) {
      return described(views.loadView(identifier));
    }
    return described(((TableCatalog) catalog).loadTable(identifier));
  }

  private static Described described(Relation relation) {
    return new Described(relation.columns(), relation.properties(), relation instanceof Table table ? table : null);
  }
}
