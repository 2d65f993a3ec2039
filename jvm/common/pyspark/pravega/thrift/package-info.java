/**
 * Spark's Thrift server, with what JDBC's metadata calls answer taken from all catalogs, and errors in one sentence.
 *
 * <p>A Spark whose own operations do that makes this package needless. Then {@code pravega-spark thriftserver} starts
 * {@code HiveThriftServer2} itself, and {@code tests/entry/test_thriftserver.py} has to pass without this package.
 * Spark 4.3 has begun it (SPARK-57518, {@code spark.sql.thriftServer.catalogMetadata.enabled}, off by default). It
 * lacks:
 *
 * <ul>
 *   <li>{@code getTables} and {@code getColumns} of other catalogs than the session catalog;
 *   <li>{@code getSchemas} of a catalog that isn't the current one, and of namespaces within namespaces;
 *   <li>{@code getCatalogs} with catalogs that are configured and weren't used yet;
 *   <li>{@code getPrimaryKeys} from the constraints of tables: Hive's has no rows;
 *   <li>views of catalogs that have them, in all of these;
 *   <li>errors that say their condition once: Hive's message is {@code [A] class: [A] text}, with all traces;
 *   <li>a way to put in other operations: {@link pyspark.pravega.thrift.ThriftServer} sets private fields of Spark's
 *       and Hive's instead.
 * </ul>
 */
package pyspark.pravega.thrift;
