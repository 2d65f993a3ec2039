package pyspark.pravega.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableContext;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Options of reads, which a catalog is told since 4.3 when it loads a table. */
public abstract class CheckedReads extends Relations {
  /** The options of reads that can be checked when a table is loaded. */
  public abstract Set<String> checkedOptions();

  @Override
  public Set<String> tableStateOptionKeys() {
    return checkedOptions();
  }

  /**
   * With options of a read. They are checked here, and what their bounds mean is settled: Spark asks for a scan much later,
   * of a stream only when it runs.
   */
  @Override
  public Table loadTable(Identifier table, TableContext context, CaseInsensitiveStringMap options)
      throws NoSuchTableException {
    Table loaded = super.loadTable(table, context, options);
    if (!options.isEmpty()) {
      JsonNode bounds = ask(table, "checkRead", "options", options.asCaseSensitiveMap());
      if (!bounds.isNull()) {
        ((PravegaTable) loaded).between(bounds);
      }
      if (loaded instanceof PravegaTable read) {
        read.areChecked(options.asCaseSensitiveMap());
      }
    }
    return loaded;
  }
}
