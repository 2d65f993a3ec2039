package pyspark.pravega.bridge;

import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NoSuchViewException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.ViewAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import pyspark.pravega.PravegaException;

/** What the catalog process answered instead of a result; becomes the exception that Spark knows where there is one. */
public final class CatalogError extends PravegaException {
  private final String kind;

  CatalogError(String kind, String condition, String sqlState, String message) {
    super(condition, sqlState, message);
    this.kind = kind;
  }

  boolean is(String kind) {
    return this.kind.equals(kind);
  }

  public Throwable about(String[] namespace) {
    return switch (kind) {
      case "no-such-namespace" -> new NoSuchNamespaceException(namespace);
      case "namespace-exists" -> new NamespaceAlreadyExistsException(namespace);
      case "namespace-not-empty" -> new NonEmptyNamespaceException(namespace);
      default -> this;
    };
  }

  public Throwable about(Identifier table) {
    return switch (kind) {
      case "no-such-table" -> new NoSuchTableException(table);
      case "table-exists" -> new TableAlreadyExistsException(table);
      case "no-such-view" -> new NoSuchViewException(table);
      case "view-exists" -> new ViewAlreadyExistsException(table);
      case "no-such-namespace" -> new NoSuchNamespaceException(table.namespace());
      default -> this;
    };
  }
}
