package pyspark.pravega.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import pyspark.pravega.bridge.CatalogProcess;
import pyspark.pravega.bridge.SessionTransaction;

/** A table that is made or replaced when its rows are written, or not at all. */
public final class StagedPravegaTable extends PravegaTable implements StagedTable {
  private boolean written;

  public StagedPravegaTable(
      CatalogProcess process, String catalog, SessionTransaction transaction, Identifier identifier, JsonNode loaded) {
    super(process, catalog, transaction, identifier, loaded);
  }

  @Override
  public void commitStagedChanges() {
    process.callAgain("commitStaged", "staged", staged(), "written", written);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    written = true;
    return super.newWriteBuilder(info);
  }

  @Override
  public void abortStagedChanges() {
    process.callAgain("abortStaged", "staged", staged());
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return new CustomTaskMetric[0];
  }
}
