package pyspark.pravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.Relation;
import org.apache.spark.sql.connector.catalog.RelationCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableContext;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.TableSummary;
import org.apache.spark.sql.connector.catalog.View;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Pravega's scopes as namespaces and its streams as tables: {@code spark.sql.catalog.NAME = pyspark.pravega.PravegaCatalog}. */
public class PravegaCatalog
    implements RelationCatalog, StagingTableCatalog, SupportsNamespaces, ProcedureCatalog, FunctionCatalog {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String BEING_DROPPED = "PRAVEGA_TABLE_BEING_DROPPED";
  private static final String FORMAT = "format";
  private static final String SESSION_PREFIX = "spark.pravega.";

  private String name;
  private CatalogProcess process;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    SQLConf conf = SQLConf.get();
    Map<String, String> session = new TreeMap<>();
    conf.getAllConfs().foreach(entry -> {
      if (entry._1().startsWith(SESSION_PREFIX)) {
        session.put(entry._1(), entry._2());
      }
      return null;
    });
    Map<String, String> given = Secrets.with(name, options.asCaseSensitiveMap());
    process = CatalogProcess.of(PythonSource.driverPython(), given, session);
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Set<TableCatalogCapability> capabilities() {
    return EnumSet.of(
        TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE, TableCatalogCapability.SUPPORT_TABLE_CONSTRAINT);
  }

  @Override
  public String[] defaultNamespace() {
    return new String[] {process.greeting().get("scope").asText()};
  }

  // Namespaces

  @Override
  public String[][] listNamespaces() {
    List<String[]> namespaces = new ArrayList<>();
    process.callAgain("listNamespaces").forEach(scope -> namespaces.add(new String[] {scope.asText()}));
    return namespaces.toArray(new String[0][]);
  }

  @Override
  public String[][] listNamespaces(String[] namespace) {
    if (namespace.length == 0) {
      return listNamespaces();
    }
    loadNamespaceMetadata(namespace);
    return new String[0][];
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) {
    return strings(ask(namespace, "loadNamespace"));
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> metadata) {
    about(namespace, "createNamespace", "properties", metadata);
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    about(namespace, "alterNamespace", "changes", Changes.of(changes));
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade) {
    return about(namespace, "dropNamespace", "cascade", cascade).asBoolean();
  }

  // Tables

  @Override
  public Identifier[] listTables(String[] namespace) {
    return identifiers(namespace, ask(namespace, "listTables"));
  }

  @Override
  public TableSummary[] listTableSummaries(String[] namespace) {
    // Spark's own way would load each table.
    List<TableSummary> summaries = new ArrayList<>();
    for (Identifier table : listTables(namespace)) {
      summaries.add(TableSummary.of(table, TableSummary.MANAGED_TABLE_TYPE));
    }
    return summaries.toArray(new TableSummary[0]);
  }

  @Override
  public Relation loadRelation(Identifier relation) throws NoSuchTableException {
    JsonNode loaded = ask(relation, "loadRelation");
    return Views.is(loaded) ? Views.of(loaded) : table(relation, loaded);
  }

  /** A table that can't be loaded, as it is being dropped, is there for DROP TABLE, which completes that. */
  @Override
  public boolean tableExists(Identifier table) {
    try {
      return RelationCatalog.super.tableExists(table);
    } catch (Exception error) {
      if (error instanceof PravegaException told && BEING_DROPPED.equals(told.getCondition())) {
        return true;
      }
      throw Unchecked.sneak(error);
    }
  }

  @Override
  public Table loadTable(Identifier table, String version) {
    return table(table, ask(table, "loadTableAt", "version", version));
  }

  @Override
  public Table loadTable(Identifier table, long microseconds) {
    return table(table, ask(table, "loadTableAt", "timestamp", microseconds));
  }

  @Override
  public Set<String> tableStateOptionKeys() {
    Set<String> keys = new HashSet<>();
    process.greeting().get("checkedOptions").forEach(key -> keys.add(key.asText()));
    return keys;
  }

  /**
   * With options of a read. They are checked here, and what their bounds mean is settled: Spark asks for a scan much later,
   * of a stream only when it runs.
   */
  @Override
  public Table loadTable(Identifier table, TableContext context, CaseInsensitiveStringMap options)
      throws NoSuchTableException {
    Table loaded = RelationCatalog.super.loadTable(table, context, options);
    if (!options.isEmpty()) {
      JsonNode bounds = ask(table, "checkRead", "options", options.asCaseSensitiveMap());
      if (!bounds.isNull()) {
        ((PravegaTable) loaded).between(bounds);
      }
    }
    return loaded;
  }

  @Override
  public Changelog loadChangelog(Identifier table, ChangelogContext context, CaseInsensitiveStringMap options) {
    JsonNode loaded = ask(table, "loadChangelog", "bounds", PravegaChangelog.bounds(context));
    return new PravegaChangelog((PravegaTable) table(table, loaded));
  }

  @Override
  public Table createTable(Identifier table, TableInfo info) {
    return table(table, define(table, "createTable", info));
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

  @Override
  public Table alterTable(Identifier table, TableChange... changes) throws NoSuchTableException {
    boolean looked = Arrays.stream(changes).anyMatch(TableChange.AddConstraint.class::isInstance);
    List<String> seen = looked && loadTable(table) instanceof PravegaTable now ? SeenTable.of(now) : List.of();
    return table(table, about(table, "alterTable", "changes", Changes.of(changes), "seen", seen));
  }

  @Override
  public boolean dropTable(Identifier table) {
    return about(table, "dropTable").asBoolean();
  }

  @Override
  public boolean purgeTable(Identifier table) {
    return dropTable(table);
  }

  @Override
  public void renameTable(Identifier from, Identifier to) {
    about(from, "renameTable");
  }

  // Tables that are made or replaced together with their rows

  @Override
  public StagedTable stageCreate(Identifier table, TableInfo info) {
    return staged(table, define(table, "stageTable", info, "create", true, "replace", false));
  }

  @Override
  public StagedTable stageReplace(Identifier table, TableInfo info) {
    return staged(table, define(table, "stageTable", info, "create", false, "replace", true));
  }

  @Override
  public StagedTable stageCreateOrReplace(Identifier table, TableInfo info) {
    return staged(table, define(table, "stageTable", info, "create", true, "replace", true));
  }

  // Views

  @Override
  public Identifier[] listViews(String[] namespace) {
    return identifiers(namespace, ask(namespace, "listViews"));
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

  // Procedures

  @Override
  public UnboundProcedure loadProcedure(Identifier procedure) {
    JsonNode described =
        process.callAgain("describeProcedure", "namespace", procedure.namespace(), "name", procedure.name());
    return new PravegaProcedure(process, name, described);
  }

  @Override
  public Identifier[] listProcedures(String[] namespace) {
    return identifiers(new String[] {"system"}, process.callAgain("listProcedures", "namespace", namespace));
  }

  // Functions: Pravega keeps none, but SHOW FUNCTIONS lists Spark's own only where a catalog may have some

  @Override
  public Identifier[] listFunctions(String[] namespace) {
    if (namespace.length > 0) {
      loadNamespaceMetadata(namespace);
    }
    return new Identifier[0];
  }

  @Override
  public UnboundFunction loadFunction(Identifier function) throws NoSuchFunctionException {
    throw new NoSuchFunctionException(function);
  }

  // Between Spark and the process

  /** Asks about a namespace, which changes nothing. */
  private JsonNode ask(String[] namespace, String method, Object... parameters) {
    return about(namespace, process::callAgain, method, parameters);
  }

  /** Asks about a relation, which changes nothing. */
  private JsonNode ask(Identifier relation, String method, Object... parameters) {
    return about(relation, process::callAgain, method, parameters);
  }

  private JsonNode about(String[] namespace, String method, Object... parameters) {
    return about(namespace, process::call, method, parameters);
  }

  private JsonNode about(Identifier relation, String method, Object... parameters) {
    return about(relation, process::call, method, parameters);
  }

  private static JsonNode about(String[] namespace, Call call, String method, Object... parameters) {
    try {
      return call.apply(method, CatalogProcess.with(parameters, "namespace", namespace));
    } catch (Exception error) {
      throw Unchecked.sneak(error instanceof CatalogError known ? known.about(namespace) : error);
    }
  }

  private static JsonNode about(Identifier relation, Call call, String method, Object... parameters) {
    try {
      return call.apply(
          method,
          CatalogProcess.with(parameters, "namespace", relation.namespace(), "table", relation.name()));
    } catch (Exception error) {
      throw Unchecked.sneak(error instanceof CatalogError known ? known.about(relation) : error);
    }
  }

  /** How the process is called: once, or once more when it died meanwhile. */
  private interface Call {
    JsonNode apply(String method, Object... parameters);
  }

  private JsonNode define(Identifier table, String method, TableInfo info, Object... parameters) {
    try {
      return about(
          table,
          method,
          CatalogProcess.with(
              parameters,
              "schema", JSON.readTree(info.schema().json()),
              "transforms", Changes.of(info.partitions()),
              "properties", Constraints.withKey(said(info.properties()), info.constraints()),
              "checks", Constraints.describe(info.constraints())));
    } catch (com.fasterxml.jackson.core.JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }

  /** A table's properties without a provider that nobody has named: the DataFrame API then sends Spark's default. */
  private static Map<String, String> said(Map<String, String> properties) {
    Map<String, String> said = new HashMap<>(properties);
    // PySpark's createTable gives its parameter `format` as an option.
    if (SQLConf.get().defaultDataSourceName().equalsIgnoreCase(said.get(TableCatalog.OPTION_PREFIX + FORMAT))) {
      said.remove(TableCatalog.OPTION_PREFIX + FORMAT);
      said.remove(FORMAT);
    }
    String provider = said.get(TableCatalog.PROP_PROVIDER);
    if (provider != null && provider.equalsIgnoreCase(SQLConf.get().defaultDataSourceName())) {
      said.remove(TableCatalog.PROP_PROVIDER);
    }
    return said;
  }

  private Table table(Identifier table, JsonNode loaded) {
    if (loaded.has("rows_of")) {
      return new RowsTable(process, name, table, loaded);
    }
    return new PravegaTable(process, name, table, loaded);
  }

  private StagedTable staged(Identifier table, JsonNode loaded) {
    return new StagedPravegaTable(process, name, table, loaded);
  }

  private static Identifier[] identifiers(String[] namespace, JsonNode names) {
    List<Identifier> identifiers = new ArrayList<>();
    names.forEach(found -> identifiers.add(Identifier.of(namespace, found.asText())));
    return identifiers.toArray(new Identifier[0]);
  }

  static StructType struct(JsonNode json) {
    return (StructType) DataType.fromJson(json.asText());
  }

  static List<String> names(JsonNode array) {
    List<String> names = new ArrayList<>();
    array.forEach(name -> names.add(name.asText()));
    return names;
  }

  static Map<String, String> strings(JsonNode object) {
    Map<String, String> map = new HashMap<>();
    object.properties().forEach(field -> map.put(field.getKey(), field.getValue().asText()));
    return map;
  }
}
