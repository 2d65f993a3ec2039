package pyspark.pravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Pravega's scopes as namespaces and its streams as tables: {@code spark.sql.catalog.NAME = pyspark.pravega.PravegaCatalog}. */
public class PravegaCatalog implements TableCatalog, SupportsNamespaces {
  private static final ObjectMapper JSON = new ObjectMapper();
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
  public String[] defaultNamespace() {
    JsonNode scope = process.greeting().get("scope");
    return scope.isNull() ? new String[0] : new String[] {scope.asText()};
  }

  // Namespaces

  @Override
  public String[][] listNamespaces() {
    List<String[]> namespaces = new ArrayList<>();
    call("listNamespaces").forEach(scope -> namespaces.add(new String[] {scope.asText()}));
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
    try {
      return strings(call("loadNamespace", "namespace", namespace));
    } catch (Exception error) {
      throw translate(error, namespace);
    }
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> metadata) {
    try {
      call("createNamespace", "namespace", namespace);
    } catch (Exception error) {
      throw translate(error, namespace);
    }
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    throw unsupported("a namespace's properties can't be changed: a Pravega scope has none");
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade) {
    try {
      return call("dropNamespace", "namespace", namespace, "cascade", cascade).asBoolean();
    } catch (Exception error) {
      throw translate(error, namespace);
    }
  }

  // Tables

  @Override
  public Identifier[] listTables(String[] namespace) {
    try {
      List<Identifier> tables = new ArrayList<>();
      call("listTables", "namespace", namespace).forEach(t -> tables.add(Identifier.of(namespace, t.asText())));
      return tables.toArray(new Identifier[0]);
    } catch (Exception error) {
      throw translate(error, namespace);
    }
  }

  @Override
  public Table loadTable(Identifier table) throws NoSuchTableException {
    try {
      return table(table, call("loadTable", "namespace", table.namespace(), "table", table.name()));
    } catch (Exception error) {
      throw translate(error, table);
    }
  }

  @Override
  public Table loadTable(Identifier table, String version) {
    throw unsupported("VERSION AS OF isn't supported by this version");
  }

  @Override
  public Table loadTable(Identifier table, long timestamp) {
    throw unsupported("TIMESTAMP AS OF isn't supported by this version");
  }

  @Override
  public Table createTable(Identifier table, TableInfo info) {
    if (info.constraints().length > 0) {
      throw unsupported("constraints can't be enforced on a stream: leave them out");
    }
    try {
      return table(
          table,
          call(
              "createTable",
              "namespace", table.namespace(),
              "table", table.name(),
              "schema", JSON.readTree(info.schema().json()),
              "transforms", transforms(info.partitions()),
              "properties", info.properties()));
    } catch (Exception error) {
      throw translate(error, table);
    }
  }

  @Override
  public Table alterTable(Identifier table, TableChange... changes) {
    throw unsupported("ALTER TABLE isn't supported by this version");
  }

  @Override
  public boolean dropTable(Identifier table) {
    try {
      return call("dropTable", "namespace", table.namespace(), "table", table.name()).asBoolean();
    } catch (Exception error) {
      throw translate(error, table);
    }
  }

  @Override
  public boolean purgeTable(Identifier table) {
    return dropTable(table);
  }

  @Override
  public void renameTable(Identifier from, Identifier to) {
    throw unsupported("a stream can't be renamed: create a new table AS SELECT from the old one, and drop that");
  }

  private JsonNode call(String method, Object... parameters) {
    return process.call(method, parameters);
  }

  private PravegaTable table(Identifier table, JsonNode loaded) {
    return new PravegaTable(
        process,
        name,
        table,
        (StructType) DataType.fromJson(loaded.get("schema").asText()),
        strings(loaded.get("properties")),
        (StructType) DataType.fromJson(process.greeting().get("metadata").asText()));
  }

  private static List<Map<String, Object>> transforms(Transform[] transforms) {
    List<Map<String, Object>> described = new ArrayList<>();
    for (Transform transform : transforms) {
      Map<String, Object> description = new HashMap<>();
      description.put("name", transform.name());
      description.put(
          "columns",
          Arrays.stream(transform.references()).map(NamedReference::fieldNames).map(p -> String.join(".", p)).toList());
      Arrays.stream(transform.arguments())
          .filter(Literal.class::isInstance)
          .findFirst()
          .ifPresent(argument -> description.put("buckets", ((Literal<?>) argument).value()));
      described.add(description);
    }
    return described;
  }

  private static Map<String, String> strings(JsonNode object) {
    Map<String, String> map = new HashMap<>();
    object.properties().forEach(field -> map.put(field.getKey(), field.getValue().asText()));
    return map;
  }

  private static RuntimeException translate(Exception error, String[] namespace) {
    return Unchecked.sneak(error instanceof CatalogError known ? known.about(namespace) : error);
  }

  private static RuntimeException translate(Exception error, Identifier table) {
    return Unchecked.sneak(error instanceof CatalogError known ? known.about(table) : error);
  }

  private static RuntimeException unsupported(String message) {
    return Unchecked.sneak(new PravegaException("PRAVEGA_UNSUPPORTED_OPERATION", message));
  }
}
