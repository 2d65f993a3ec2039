package pyspark.pravega.thrift;

import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import pyspark.pravega.PravegaCatalog;

/** What a catalog has: before 4.2 no views that Spark's SQL knows. */
final class CatalogRelations {
  private CatalogRelations() {}

  /** Whether a catalog knows by a name alone whether it is a table or a view. */
  static boolean knows(CatalogPlugin catalog) {
    return catalog instanceof PravegaCatalog;
  }

  static boolean hasViews(CatalogPlugin catalog) {
    return false;
  }

  static Identifier[] views(CatalogPlugin catalog, String[] namespace) {
    return new Identifier[0];
  }

  /** A table, or a view where a catalog has some. */
  static Described load(CatalogPlugin catalog, Identifier identifier, boolean isView) throws Exception {
    return Described.of(((TableCatalog) catalog).loadTable(identifier));
  }
}
