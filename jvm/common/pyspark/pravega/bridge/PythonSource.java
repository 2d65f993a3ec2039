package pyspark.pravega.bridge;

import java.lang.reflect.Field;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/** The Python that Spark runs: which one, and Spark's handle for functions that it is to run there. */
public final class PythonSource {
  /** The data source's name, as of {@code spark.read.format}. */
  private static final String NAME = "pravega";

  /** With this option the data source says, with its columns, what of a streaming read can't be. */
  private static final String STREAMED = "pravega-streamed";

  /** Tables of streaming reads that can be: Spark analyses a query again and again. */
  private static final Set<Table> CHECKED = Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));

  private PythonSource() {}

  /**
   * Refuses a streaming read of this package's data source without the catalog that can't be. Spark would make its
   * reader, which tells that, only when the query has begun.
   */
  public static void checkStream(StreamingRelationV2 relation) {
    if (NAME.equalsIgnoreCase(relation.sourceName())
        && relation.table() instanceof PythonTable table
        && relation.source().isDefined()
        && relation.source().get() instanceof PythonDataSourceV2 source
        && !CHECKED.contains(table)) {
      Map<String, String> options = new HashMap<>(relation.extraOptions().asCaseSensitiveMap());
      options.put(STREAMED, "true");
      source.source().createDataSourceInPython(NAME, new CaseInsensitiveStringMap(options), Option.empty());
      CHECKED.add(table);
    }
  }

  /** Whether a table is one of this package's data source without the catalog. */
  public static boolean isOwn(Table table) {
    return table instanceof PythonTable && NAME.equalsIgnoreCase(table.name());
  }

  /** The Python of Spark's driver, as Spark finds it. */
  public static String driverPython() {
    return find("spark.pyspark.driver.python", "PYSPARK_DRIVER_PYTHON", workerPython());
  }

  /**
   * Spark's handle for the functions that the catalog process has pickled. Made here and not looked up by name, which
   * would cost a Python process.
   *
   * @param version major and minor version of the Python that pickled them
   */
  static UserDefinedPythonDataSource of(String version) {
    // Before 4.1 each task's runner puts its settings into this map.
    Map<String, String> environment = new ConcurrentHashMap<>();
    return new UserDefinedPythonDataSource(
        new SimplePythonFunction(new byte[0], environment, List.of(), workerPython(), version, List.of(), null));
  }

  /** The options of a read of this package's data source without the catalog; null where a scan is none. */
  public static Map<String, String> optionsOf(Scan scan) {
    if (!(scan instanceof PythonScan)) {
      return null;
    }
    try {
      Field name = PythonScan.class.getDeclaredField("shortName");
      Field options = PythonScan.class.getDeclaredField("options");
      name.setAccessible(true);
      options.setAccessible(true);
      return NAME.equalsIgnoreCase((String) name.get(scan))
          ? ((CaseInsensitiveStringMap) options.get(scan)).asCaseSensitiveMap()
          : null;
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("Spark's scan of Python data sources isn't what this package knows", error);
    }
  }

  private static String workerPython() {
    return find("spark.pyspark.python", "PYSPARK_PYTHON", "python3");
  }

  private static String find(String key, String variable, String otherwise) {
    String configured = SparkEnv.get().conf().get(key, null);
    return configured != null ? configured : System.getenv().getOrDefault(variable, otherwise);
  }
}
