package pyspark.pravega.thrift;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.hive.service.cli.FetchOrientation;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.hive.service.cli.OperationHandle;
import org.apache.hive.service.cli.OperationState;
import org.apache.hive.service.cli.RowSet;
import org.apache.hive.service.cli.RowSetFactory;
import org.apache.hive.service.cli.TableSchema;
import org.apache.hive.service.cli.operation.ExecuteStatementOperation;
import org.apache.hive.service.cli.operation.GetCatalogsOperation;
import org.apache.hive.service.cli.operation.GetColumnsOperation;
import org.apache.hive.service.cli.operation.GetCrossReferenceOperation;
import org.apache.hive.service.cli.operation.GetPrimaryKeysOperation;
import org.apache.hive.service.cli.operation.GetSchemasOperation;
import org.apache.hive.service.cli.operation.MetadataOperation;
import org.apache.hive.service.cli.operation.Operation;
import org.apache.hive.service.cli.session.HiveSession;
import org.apache.hive.service.rpc.thrift.TRowSet;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.hive.thriftserver.HiveThriftServer2;
import org.apache.spark.sql.hive.thriftserver.ReflectionUtils;
import org.apache.spark.sql.hive.thriftserver.SparkGetCatalogsOperation;
import org.apache.spark.sql.hive.thriftserver.SparkGetColumnsOperation;
import org.apache.spark.sql.hive.thriftserver.SparkGetSchemasOperation;
import org.apache.spark.sql.hive.thriftserver.SparkGetTablesOperation;
import org.apache.spark.sql.hive.thriftserver.SparkOperation;
import org.apache.spark.sql.hive.thriftserver.server.SparkSQLOperationManager;
import org.apache.spark.sql.internal.SessionState;
import pyspark.pravega.bridge.Unchecked;
import scala.runtime.BoxedUnit;

/**
 * Answers JDBC's metadata calls from all catalogs of a session; Spark's own class knows its session catalog only.
 *
 * <p>Statements run as Spark's own do, but for their errors: see {@link Statement}.
 */
final class TreeOperations extends SparkSQLOperationManager {
  /** Of so many tables at most their comments are looked up: each must be loaded for it. */
  private static final int COMMENTED = 50;

  /** Spark's class looks for it one class above the object's, which here is itself. */
  @Override
  public Map<OperationHandle, Operation> handleToOperation() {
    return ReflectionUtils.getAncestorField(this, 2, "handleToOperation");
  }

  @Override
  public synchronized ExecuteStatementOperation newExecuteStatementOperation(
      HiveSession session, String statement, Map<String, String> settings, boolean async, long timeout) {
    SparkSession spark = spark(session);
    boolean background = async && Boolean.parseBoolean(spark.conf().get("spark.sql.hive.thriftServer.async", "true"));
    return kept(new Statement(spark, session, statement, settings, background, timeout));
  }

  @Override
  public synchronized GetCatalogsOperation newGetCatalogsOperation(HiveSession session) {
    return kept(new Catalogs(spark(session), session));
  }

  @Override
  public synchronized GetSchemasOperation newGetSchemasOperation(HiveSession session, String catalog, String schema) {
    return kept(new Schemas(spark(session), session, catalog, schema));
  }

  @Override
  public synchronized MetadataOperation newGetTablesOperation(
      HiveSession session, String catalog, String schema, String table, List<String> types) {
    return kept(new Tables(spark(session), session, catalog, schema, table, types));
  }

  @Override
  public synchronized GetColumnsOperation newGetColumnsOperation(
      HiveSession session, String catalog, String schema, String table, String column) {
    return kept(new Columns(spark(session), session, catalog, schema, table, column));
  }

  @Override
  public synchronized GetPrimaryKeysOperation newGetPrimaryKeysOperation(
      HiveSession session, String catalog, String schema, String table) {
    return kept(new PrimaryKeys(spark(session), session, catalog, schema, table));
  }

  @Override
  public synchronized GetCrossReferenceOperation newGetCrossReferenceOperation(
      HiveSession session,
      String primaryCatalog,
      String primarySchema,
      String primaryTable,
      String foreignCatalog,
      String foreignSchema,
      String foreignTable) {
    return kept(
        new NoReferences(
            session, primaryCatalog, primarySchema, primaryTable, foreignCatalog, foreignSchema, foreignTable));
  }

  private SparkSession spark(HiveSession session) {
    return sessionToContexts().get(session.getSessionHandle());
  }

  private <T extends Operation> T kept(T operation) {
    handleToOperation().put(operation.getHandle(), operation);
    return operation;
  }

  /** What an operation does. */
  private interface Work {
    void run(Tree tree) throws Exception;
  }

  private interface Action {
    void run() throws Exception;
  }

  /** How an operation tells its state. */
  private interface States {
    void set(OperationState state) throws HiveSQLException;
  }

  /** Runs an operation as Spark's own operations run: its events, its class loader, its errors. */
  private static void run(SparkOperation operation, HiveSession session, String what, States states, Work work) {
    String id = operation.statementId();
    sneaking(() -> states.set(OperationState.RUNNING));
    String sessionId = session.getSessionHandle().getSessionId().toString();
    HiveThriftServer2.eventManager().onStatementStart(id, sessionId, what, id, session.getUsername());
    try {
      inSession(operation.session(), work);
      sneaking(() -> states.set(OperationState.FINISHED));
    } catch (Throwable error) {
      operation.onError().apply(error);
    }
    HiveThriftServer2.eventManager().onStatementFinish(id);
  }

  /** Does something with a session's catalogs as Spark's own operations do: its classes, its settings. */
  private static void inSession(SparkSession session, Work work) {
    var spark = (org.apache.spark.sql.classic.SparkSession) session;
    Thread.currentThread().setContextClassLoader(spark.sharedState().jarClassLoader());
    spark.withActive(
        () -> {
          SessionState state = spark.sessionState();
          Tree tree = new Tree(state.catalogManager(), state.catalog(), state.conf());
          sneaking(() -> work.run(tree));
          return BoxedUnit.UNIT;
        });
  }

  /** Scala's functions declare no exceptions. */
  private static void sneaking(Action action) {
    try {
      action.run();
    } catch (Exception error) {
      throw Unchecked.sneak(error);
    }
  }

  private static final class Catalogs extends SparkGetCatalogsOperation {
    private final HiveSession parent;

    Catalogs(SparkSession spark, HiveSession parent) {
      super(spark, parent);
      this.parent = parent;
    }

    @Override
    public void runInternal() {
      TreeOperations.run(this, parent, "Listing catalogs", this::setState, this::list);
    }

    private void list(Tree tree) {
      tree.catalogs().forEach(name -> rowSet.addRow(new Object[] {name}));
    }
  }

  private static final class Schemas extends SparkGetSchemasOperation {
    private final HiveSession parent;
    private final String catalog;
    private final String schema;

    Schemas(SparkSession spark, HiveSession parent, String catalog, String schema) {
      super(spark, parent, catalog, schema);
      this.parent = parent;
      this.catalog = catalog;
      this.schema = schema;
    }

    @Override
    public void runInternal() {
      TreeOperations.run(this, parent, "Listing namespaces", this::setState, this::list);
    }

    private void list(Tree tree) throws Exception {
      for (Tree.Namespace found : tree.namespaces(catalog, new NamePattern(schema))) {
        rowSet.addRow(new Object[] {found.name(), found.catalog().name()});
      }
    }
  }

  private static final class Tables extends SparkGetTablesOperation {
    private final HiveSession parent;
    private final String catalog;
    private final String schema;
    private final NamePattern names;
    private final List<String> types;

    Tables(
        SparkSession spark, HiveSession parent, String catalog, String schema, String table, List<String> types) {
      super(spark, parent, catalog, schema, table, types);
      this.parent = parent;
      this.catalog = catalog;
      this.schema = schema;
      this.names = new NamePattern(table);
      this.types = types;
    }

    @Override
    public void runInternal() {
      TreeOperations.run(this, parent, "Listing tables", this::setState, this::list);
    }

    private void list(Tree tree) throws Exception {
      List<Tree.Entry> found =
          tree.entries(catalog, new NamePattern(schema), names, wanted("TABLE"), wanted("VIEW"));
      for (Tree.Entry entry : found) {
        String comment = "";
        if (found.size() <= COMMENTED) {
          // One that can't be read is there all the same.
          Described relation = tree.load(entry, new NamePattern("%"));
          Map<String, String> properties = relation == null ? Map.of() : relation.properties();
          comment = properties.getOrDefault(TableCatalog.PROP_COMMENT, "");
        }
        rowSet.addRow(
            new Object[] {
              entry.catalogName(),
              entry.namespace(),
              entry.identifier().name(),
              entry.isView() ? "VIEW" : "TABLE",
              comment,
              null,
              null,
              null,
              null,
              null
            });
      }
    }

    private boolean wanted(String type) {
      return types == null || types.isEmpty() || types.contains(type);
    }
  }

  private static final class Columns extends SparkGetColumnsOperation {
    private final HiveSession parent;
    private final String catalog;
    private final String schema;
    private final NamePattern names;
    private final NamePattern columns;

    Columns(SparkSession spark, HiveSession parent, String catalog, String schema, String table, String column) {
      super(spark, parent, catalog, schema, table, column);
      this.parent = parent;
      this.catalog = catalog;
      this.schema = schema;
      this.names = new NamePattern(table);
      this.columns = new NamePattern(column);
    }

    @Override
    public void runInternal() {
      TreeOperations.run(this, parent, "Listing columns", this::setState, this::list);
    }

    private void list(Tree tree) throws Exception {
      for (Tree.Entry entry : tree.entries(catalog, new NamePattern(schema), names, true, true)) {
        Described relation = tree.load(entry, names);
        if (relation == null) {
          continue;
        }
        List<String> all = new ArrayList<>();
        for (Column column : relation.columns()) {
          all.add(column.name());
        }
        List<String> wanted = columns.of(all);
        for (int i = 0; i < all.size(); i++) {
          if (wanted.contains(all.get(i))) {
            rowSet.addRow(ColumnRow.of(entry, relation.columns()[i], i + 1));
          }
        }
      }
    }
  }

  /** Spark has no operation of its own for this call, and Hive's has no rows. */
  private static final class PrimaryKeys extends GetPrimaryKeysOperation {
    private final SparkSession spark;
    private final String catalog;
    private final String schema;
    private final String table;
    private final List<Object[]> found = new ArrayList<>();
    private RowSet rows;

    PrimaryKeys(SparkSession spark, HiveSession parent, String catalog, String schema, String table) {
      super(parent, catalog, schema, table);
      this.spark = spark;
      this.catalog = catalog;
      this.schema = schema;
      this.table = table;
    }

    @Override
    public void runInternal() throws HiveSQLException {
      setState(OperationState.RUNNING);
      try {
        inSession(spark, this::list);
        setState(OperationState.FINISHED);
      } catch (Exception error) {
        setState(OperationState.ERROR);
        throw new HiveSQLException(error.getMessage(), error);
      }
    }

    private void list(Tree tree) throws Exception {
      NamePattern names = exactly(table);
      for (Tree.Entry entry : tree.entries(catalog, exactly(schema), names, true, false)) {
        Described loaded = tree.load(entry, names);
        if (loaded == null || loaded.table() == null) {
          continue;
        }
        PrimaryKeyOf key = PrimaryKeyOf.of(loaded.table(), entry.identifier().name());
        if (key != null) {
          add(entry, key);
        }
      }
    }

    private void add(Tree.Entry entry, PrimaryKeyOf key) {
      int sequence = 1;
      for (String name : key.columns()) {
        found.add(
            new Object[] {
              entry.catalogName(), entry.namespace(), entry.identifier().name(), name, sequence++, key.name()
            });
      }
    }

    /** A name as a pattern: this call takes names. */
    private static NamePattern exactly(String name) {
      return new NamePattern(name == null ? null : name.replaceAll("([\\\\%_])", "\\\\$1"));
    }

    @Override
    public TRowSet getNextRowSet(FetchOrientation orientation, long most) throws HiveSQLException {
      assertState(OperationState.FINISHED);
      validateDefaultFetchOrientation(orientation);
      if (rows == null) {
        // Its columns are told only now.
        rows = RowSetFactory.create(new TableSchema(getResultSetSchema()), getProtocolVersion(), false);
        found.forEach(rows::addRow);
      }
      if (orientation.equals(FetchOrientation.FETCH_FIRST)) {
        rows.setStartOffset(0);
      }
      return rows.extractSubset((int) most).toTRowSet();
    }
  }

  /** No table refers to another one. Hive's operation would ask a metastore, which isn't there. */
  private static final class NoReferences extends GetCrossReferenceOperation {
    NoReferences(
        HiveSession parent,
        String primaryCatalog,
        String primarySchema,
        String primaryTable,
        String foreignCatalog,
        String foreignSchema,
        String foreignTable) {
      super(parent, primaryCatalog, primarySchema, primaryTable, foreignCatalog, foreignSchema, foreignTable);
    }

    @Override
    public void runInternal() throws HiveSQLException {
      setState(OperationState.RUNNING);
      setState(OperationState.FINISHED);
    }

    @Override
    public TRowSet getNextRowSet(FetchOrientation orientation, long most) throws HiveSQLException {
      assertState(OperationState.FINISHED);
      return RowSetFactory.create(new TableSchema(getResultSetSchema()), getProtocolVersion(), false).toTRowSet();
    }
  }
}
