package pyspark.pravega.write;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import pyspark.pravega.bridge.Names;
import pyspark.pravega.catalog.PravegaTable;
import pyspark.pravega.read.PravegaScanBuilder;

/** UPDATE, DELETE or MERGE on a table with a key: what changes is written, and nothing else. */
public record PravegaRowLevelOperation(PravegaTable table, Command command) implements SupportsDelta {
  @Override
  public String description() {
    return "Pravega " + table.name();
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    Map<String, String> given = new HashMap<>(options.asCaseSensitiveMap());
    // The fewer rows it has read, the fewer others may change meanwhile: however small the table is.
    given.putIfAbsent("runtimeFilterSize", "0");
    PravegaScanBuilder scan = new PravegaScanBuilder(table, new CaseInsensitiveStringMap(given));
    // For MERGE Spark would evaluate the source once more, as a filter, and can't where it has correlated subqueries.
    return command == Command.MERGE ? scan.withoutRuntimeFilters() : scan;
  }

  @Override
  public NamedReference[] rowId() {
    return Names.references(table.rowId());
  }

  @Override
  public boolean representUpdateAsDeleteAndInsert() {
    // So all that happens to a key comes to the task of that key, also where an update changes keys.
    return true;
  }

  @Override
  public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new DeltaWriteBuilder() {
      @Override
      public DeltaWrite build() {
        return new PravegaChanges(table, info, command);
      }
    };
  }
}
