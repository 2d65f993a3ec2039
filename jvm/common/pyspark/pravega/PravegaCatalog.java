package pyspark.pravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import pyspark.pravega.bridge.Answers;
import pyspark.pravega.bridge.CatalogError;
import pyspark.pravega.bridge.CatalogProcess;
import pyspark.pravega.bridge.Names;
import pyspark.pravega.bridge.PythonSource;
import pyspark.pravega.bridge.SessionTransaction;
import pyspark.pravega.bridge.Since;
import pyspark.pravega.bridge.Unchecked;
import pyspark.pravega.catalog.Changes;
import pyspark.pravega.catalog.CheckedReads;
import pyspark.pravega.catalog.Constraints;
import pyspark.pravega.catalog.LookAhead;
import pyspark.pravega.catalog.PravegaProcedure;
import pyspark.pravega.catalog.PravegaTable;
import pyspark.pravega.catalog.RowsTable;
import pyspark.pravega.catalog.StagedPravegaTable;
import pyspark.pravega.read.SeenTable;

/** Pravega's scopes as namespaces and its streams as tables: {@code spark.sql.catalog.NAME = pyspark.pravega.PravegaCatalog}. */
public class PravegaCatalog extends CheckedReads
    implements SupportsNamespaces, ProcedureCatalog, FunctionCatalog {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String BEING_DROPPED = "PRAVEGA_TABLE_BEING_DROPPED";
  private static final String FORMAT = "format";
  private static final String SESSION_PREFIX = "spark.pravega.";

  private String name;
  private CatalogProcess process;
  private SessionTransaction transaction;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    Since.check();
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
    transaction = new SessionTransaction(process, name);
  }

  @Override
  public String name() {
    return name;
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
    return Answers.strings(ask(namespace, "loadNamespace"));
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
    return Names.identifiers(namespace, ask(namespace, "listTables"));
  }

  /** A table that can't be loaded, as it is being dropped, is there for DROP TABLE, which completes that. */
  @Override
  public boolean tableExists(Identifier table) {
    try {
      return super.tableExists(table);
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
  public Set<String> checkedOptions() {
    Set<String> keys = new HashSet<>();
    process.greeting().get("checkedOptions").forEach(key -> keys.add(key.asText()));
    return keys;
  }

  @Override
  public Table alterTable(Identifier table, TableChange... changes) throws NoSuchTableException {
    boolean looked = Constraints.added(changes);
    List<String> seen = looked && loadTable(table) instanceof PravegaTable now ? SeenTable.of(now) : List.of();
    return table(table, about(table, "alterTable", "changes", Changes.of(changes), "seen", seen));
  }

  @Override
  public boolean dropTable(Identifier table) {
    return about(table, "dropTable").asBoolean();
  }

  @Override
  public boolean purgeTable(Identifier table) {
    return about(table, "dropTable", "purge", true).asBoolean();
  }

  @Override
  public void renameTable(Identifier from, Identifier to) {
    about(from, "renameTable");
  }

  // Procedures

  @Override
  public UnboundProcedure loadProcedure(Identifier procedure) {
    JsonNode described =
        process.callAgain("describeProcedure", "namespace", procedure.namespace(), "name", procedure.name());
    return new PravegaProcedure(process, name, transaction, described);
  }

  /** Spark asks for it since 4.1. */
  public Identifier[] listProcedures(String[] namespace) {
    return Names.identifiers(new String[] {"system"}, process.callAgain("listProcedures", "namespace", namespace));
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
  public JsonNode ask(String[] namespace, String method, Object... parameters) {
    return about(namespace, process::callAgain, method, parameters);
  }

  @Override
  public JsonNode ask(Identifier relation, String method, Object... parameters) {
    return about(relation, process::callAgain, method, parameters);
  }

  @Override
  public JsonNode loaded(Identifier relation) {
    Supplier<JsonNode> ahead = LookAhead.take(this, relation);
    return ahead == null ? ask(relation, "loadRelation") : about(relation, (method, parameters) -> ahead.get(), "loadRelation");
  }

  /** Begins to load a relation. */
  public Supplier<JsonNode> ahead(Identifier relation) {
    return process.ahead("loadRelation", "namespace", relation.namespace(), "table", relation.name());
  }

  private JsonNode about(String[] namespace, String method, Object... parameters) {
    transaction.refuse(words(method));
    return about(namespace, process::call, method, parameters);
  }

  @Override
  public JsonNode about(Identifier relation, String method, Object... parameters) {
    transaction.refuse(words(method));
    return about(relation, process::call, method, parameters);
  }

  /** What a statement does that calls a method which changes something: {@code ALTER TABLE} for {@code alterTable}. */
  private static String words(String method) {
    return switch (method) {
      case "stageTable" -> "CREATE TABLE AS SELECT";
      case "storeView" -> "CREATE VIEW";
      default -> method.replaceAll("([A-Z])", " $1").toUpperCase(Locale.ROOT);
    };
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

  @Override
  public JsonNode define(
      Identifier table,
      String method,
      StructType schema,
      Transform[] partitions,
      Map<String, String> properties,
      List<Map<String, Object>> checks,
      Object... parameters) {
    try {
      return about(
          table,
          method,
          CatalogProcess.with(
              parameters,
              "schema", JSON.readTree(schema.json()),
              "transforms", Changes.of(partitions),
              "properties", said(properties),
              "checks", checks));
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

  @Override
  public Table table(Identifier table, JsonNode loaded) {
    if (loaded.has("rows_of")) {
      return new RowsTable(process, name, table, loaded);
    }
    return new PravegaTable(process, name, transaction, table, loaded);
  }

  @Override
  public StagedTable staged(Identifier table, JsonNode loaded) {
    return new StagedPravegaTable(process, name, transaction, table, loaded);
  }
}
