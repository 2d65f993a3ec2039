package pyspark.pravega.thrift;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NoSuchViewException;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.internal.SQLConf;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The catalogs of a session, with their namespaces, tables and views.
 *
 * <p>What is asked for by its name fails as it does in a statement. Where a pattern leads through many, what can't be
 * read (no rights, a format that can't be a table, another catalog that doesn't start) is left out. A Pravega that
 * can't be reached fails always, or the tree would look empty.
 */
final class Tree {
  private static final Logger LOG = LoggerFactory.getLogger(Tree.class);
  private static final String PREFIX = "spark.sql.catalog.";
  private static final Pattern UNREACHABLE = Pattern.compile("PRAVEGA_.*(UNAVAILABLE|NO_ANSWER|DEADLINE_EXCEEDED)");

  private final CatalogManager manager;
  private final SessionCatalog session;
  private final SQLConf conf;

  Tree(CatalogManager manager, SessionCatalog session, SQLConf conf) {
    this.manager = manager;
    this.session = session;
    this.conf = conf;
  }

  /** A namespace of a catalog. */
  record Namespace(CatalogPlugin catalog, String[] path) {
    String name() {
      return String.join(".", path);
    }
  }

  /** A table or view. The catalog and namespace of a temporary view are empty texts. */
  record Entry(
      CatalogPlugin catalog,
      String catalogName,
      String namespace,
      Identifier identifier,
      boolean isView,
      Described loaded) {}

  /** The names of the catalogs that are configured, and Spark's own; sorted. */
  Collection<String> catalogs() {
    TreeSet<String> names = new TreeSet<>();
    names.add(CatalogManager.SESSION_CATALOG_NAME());
    conf.getAllConfs().foreach(entry -> {
      String key = entry._1();
      if (key.startsWith(PREFIX) && key.indexOf('.', PREFIX.length()) < 0) {
        names.add(key.substring(PREFIX.length()));
      }
      return null;
    });
    return names;
  }

  /** The namespaces of one catalog, or of all where none is named. */
  List<Namespace> namespaces(String catalog, NamePattern pattern) throws Exception {
    List<Namespace> found = new ArrayList<>();
    for (String name : catalogs()) {
      if (!isAny(catalog) && !catalog.equalsIgnoreCase(name)) {
        continue;
      }
      try {
        addNamespaces(manager.catalog(name), pattern, found);
      } catch (Exception error) {
        if (!isAny(catalog) || name.equals(manager.currentCatalog().name())) {
          throw error;
        }
        leftOut("catalog " + name, error);
      }
    }
    return found;
  }

  private static void addNamespaces(CatalogPlugin catalog, NamePattern pattern, List<Namespace> found)
      throws Exception {
    if (!(catalog instanceof SupportsNamespaces namespaces)) {
      if (pattern.matches("")) {
        found.add(new Namespace(catalog, new String[0]));
      }
      return;
    }
    Map<String, Namespace> paths = new LinkedHashMap<>();
    for (String[] path : namespaces.listNamespaces()) {
      Namespace namespace = new Namespace(catalog, path);
      paths.put(namespace.name(), namespace);
    }
    pattern.of(paths.keySet()).forEach(name -> found.add(paths.get(name)));
  }

  /** The tables and views whose names match; of many none is loaded. */
  List<Entry> entries(String catalog, NamePattern namespaces, NamePattern names, boolean tables, boolean views)
      throws Exception {
    List<Entry> found = new ArrayList<>();
    List<Namespace> matching = namespaces(catalog, namespaces);
    for (Namespace namespace : matching) {
      // Of many namespaces most don't have it, and their lists are asked for all the same.
      Entry known = names.isName() && matching.size() == 1 ? known(namespace, names.name()) : null;
      if (known != null) {
        if (known.isView() ? views : tables) {
          found.add(known);
        }
        continue;
      }
      try {
        Map<String, Entry> entries = new LinkedHashMap<>();
        for (Entry entry : entries(namespace, tables, views)) {
          entries.put(entry.identifier().name(), entry);
        }
        names.of(entries.keySet()).forEach(name -> found.add(entries.get(name)));
      } catch (NoSuchNamespaceException dropped) {
        continue;
      } catch (Exception error) {
        unlessNamed(namespaces, namespace.catalog().name() + "." + namespace.name(), error);
      }
    }
    if (views && isAny(catalog)) {
      addTemporary(namespaces, names, found);
    }
    return found;
  }

  /** The table or view that is spelled just so, without a list of all; null when there is none, or it can't be read. */
  private static Entry known(Namespace namespace, String name) {
    CatalogPlugin catalog = namespace.catalog();
    if (!CatalogRelations.knows(catalog)) {
      return null;
    }
    Identifier identifier = Identifier.of(namespace.path(), name);
    try {
      Described loaded = CatalogRelations.load(catalog, identifier, false);
      return new Entry(catalog, catalog.name(), namespace.name(), identifier, loaded.table() == null, loaded);
    } catch (Exception error) {
      // The list says whether it is there.
      return null;
    }
  }

  private List<Entry> entries(Namespace namespace, boolean tables, boolean views) throws Exception {
    CatalogPlugin catalog = namespace.catalog();
    List<Entry> found = new ArrayList<>();
    if (catalog.name().equals(CatalogManager.SESSION_CATALOG_NAME()) && !CatalogRelations.hasViews(catalog)) {
      // Its own lists have temporary views among the tables of each namespace, and fail to load them.
      session.getTablesByName(session.listTables(namespace.name(), "*", false)).foreach(table -> {
        boolean view = table.tableType().name().equals("VIEW");
        if (view ? views : tables) {
          Identifier identifier = Identifier.of(namespace.path(), table.identifier().table());
          found.add(new Entry(catalog, catalog.name(), namespace.name(), identifier, view, null));
        }
        return null;
      });
      return found;
    }
    // Not by summaries: most catalogs load each table for them.
    if (tables && catalog instanceof TableCatalog known) {
      add(known.listTables(namespace.path()), namespace, false, found);
    }
    if (views && CatalogRelations.hasViews(catalog)) {
      add(CatalogRelations.views(catalog, namespace.path()), namespace, true, found);
    }
    return found;
  }

  private static void add(Identifier[] identifiers, Namespace namespace, boolean view, List<Entry> found) {
    CatalogPlugin catalog = namespace.catalog();
    for (Identifier identifier : identifiers) {
      found.add(new Entry(catalog, catalog.name(), namespace.name(), identifier, view, null));
    }
  }

  private void addTemporary(NamePattern namespaces, NamePattern names, List<Entry> found) {
    String global = session.globalTempDatabase();
    List<TableIdentifier> temporary = new ArrayList<>();
    session.listLocalTempViews("*").foreach(temporary::add);
    if (namespaces.matches(global)) {
      session.listTables(global, "*", false).foreach(temporary::add);
    }
    for (TableIdentifier view : temporary) {
      String namespace = view.database().isDefined() ? view.database().get() : "";
      if (namespaces.matches(namespace) && names.matches(view.table())) {
        found.add(new Entry(null, "", namespace, Identifier.of(new String[] {namespace}, view.table()), true, null));
      }
    }
  }

  /** Columns and properties of a table or view, or null when it can't be read. */
  Described load(Entry entry, NamePattern pattern) throws Exception {
    if (entry.loaded() != null) {
      return entry.loaded();
    }
    Identifier identifier = entry.identifier();
    try {
      if (entry.catalog() == null) {
        return temporary(entry);
      }
      return CatalogRelations.load(entry.catalog(), identifier, entry.isView());
    } catch (NoSuchTableException | NoSuchViewException dropped) {
      return null;
    } catch (Exception error) {
      unlessNamed(pattern, entry.catalogName() + "." + identifier, error);
      return null;
    }
  }

  private static void unlessNamed(NamePattern pattern, String what, Exception error) throws Exception {
    String condition = error instanceof SparkThrowable known ? known.getCondition() : null;
    if (pattern.isName() || condition != null && UNREACHABLE.matcher(condition).matches()) {
      throw error;
    }
    leftOut(what, error);
  }

  private static void leftOut(String what, Exception error) {
    LOG.warn("{} is left out of what a client asked for: {}", what, error.getMessage());
  }

  private static boolean isAny(String catalog) {
    return catalog == null || catalog.isEmpty() || catalog.equals("%");
  }

  private Described temporary(Entry entry) throws NoSuchViewException {
    String name = entry.identifier().name();
    var view = entry.namespace().isEmpty() ? session.getRawTempView(name) : session.getRawGlobalTempView(name);
    if (view.isEmpty()) {
      throw new NoSuchViewException(entry.identifier());
    }
    Column[] columns =
        Arrays.stream(view.get().tableMeta().schema().fields())
            .map(
                field ->
                    Column.create(
                        field.name(),
                        field.dataType(),
                        field.nullable(),
                        field.getComment().isDefined() ? field.getComment().get() : null,
                        null))
            .toArray(Column[]::new);
    return new Described(columns, Map.of(), null);
  }
}
