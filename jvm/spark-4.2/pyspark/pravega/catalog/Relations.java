package pyspark.pravega.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Relation;
import org.apache.spark.sql.connector.catalog.RelationCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.View;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import pyspark.pravega.bridge.Names;

/** Tables, their changes, and views, which Spark's SQL asks a catalog for since 4.2. */
abstract class Relations extends TableDefinitions implements RelationCatalog {
  /** Asks about a relation, which changes nothing. */
  public abstract JsonNode ask(Identifier relation, String method, Object... parameters);

  /** A relation as it is now, or as it was when the statement that is analysed had begun. */
  public abstract JsonNode loaded(Identifier relation);

  /** Says or asks something about a relation. */
  public abstract JsonNode about(Identifier relation, String method, Object... parameters);

  /** Asks about a namespace, which changes nothing. */
  public abstract JsonNode ask(String[] namespace, String method, Object... parameters);

  @Override
  public Relation loadRelation(Identifier relation) throws NoSuchTableException {
    JsonNode loaded = loaded(relation);
    return Views.is(loaded) ? Views.of(loaded) : table(relation, loaded);
  }

  @Override
  public Changelog loadChangelog(Identifier table, ChangelogContext context, CaseInsensitiveStringMap options) {
    JsonNode loaded = ask(table, "loadChangelog", "bounds", PravegaChangelog.bounds(context));
    return new PravegaChangelog((PravegaTable) table(table, loaded));
  }

  @Override
  public Table createTableLike(Identifier table, TableInfo given, Table source) {
    // Of a table of another catalog only the columns mean anything here.
    Map<String, String> properties =
        source instanceof PravegaTable ? new HashMap<>(source.properties()) : new HashMap<>();
    properties.remove(TableCatalog.PROP_OWNER);
    properties.putAll(given.properties());
    TableInfo info =
        new TableInfo.Builder()
            .withColumns(source.columns())
            .withProperties(properties)
            .withPartitions(source instanceof PravegaTable ? source.partitioning() : new Transform[0])
            .build();
    return createTable(table, info);
  }

  // Views

  @Override
  public Identifier[] listViews(String[] namespace) {
    return Names.identifiers(namespace, ask(namespace, "listViews"));
  }

  @Override
  public View createView(Identifier view, View definition) {
    return storeView(view, definition, true, false);
  }

  @Override
  public View replaceView(Identifier view, View definition) {
    return storeView(view, definition, false, true);
  }

  @Override
  public View createOrReplaceView(Identifier view, View definition) {
    return storeView(view, definition, true, true);
  }

  @Override
  public boolean dropView(Identifier view) {
    return about(view, "dropView").asBoolean();
  }

  @Override
  public void renameView(Identifier from, Identifier to) {
    about(from, "renameView", "to_namespace", to.namespace(), "to", to.name());
  }

  private View storeView(Identifier view, View definition, boolean create, boolean replace) {
    about(view, "storeView", "definition", Views.describe(definition), "create", create, "replace", replace);
    return definition;
  }
}
