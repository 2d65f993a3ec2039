package pyspark.pravega.write;

import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import pyspark.pravega.catalog.PravegaTable;
import pyspark.pravega.read.PravegaScanBuilder;

/** DELETE of some rows of a table without a key: refused before anything is read, when Spark knows which rows it means. */
public record RefusedRowLevelOperation(PravegaTable table) implements RowLevelOperation {
  @Override
  public Command command() {
    return Command.DELETE;
  }

  @Override
  public String description() {
    return "Pravega " + table.name();
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new PravegaScanBuilder(table, options).withoutRuntimeFilters();
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new WriteBuilder() {
      @Override
      public Write build() {
        return new Write() {
          @Override
          public BatchWrite toBatch() {
            throw table.refused(Command.DELETE);
          }
        };
      }
    };
  }
}
