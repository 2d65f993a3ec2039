package pyspark.pravega.write;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import pyspark.pravega.bridge.CatalogProcess;
import pyspark.pravega.bridge.MetricSources;

/** One micro-batch of a streaming query: a write that the catalog process commits once for each epoch. */
final class PravegaStreamingWrite implements StreamingWrite {
  private final PravegaWrite write;
  private final String run;

  PravegaStreamingWrite(PravegaWrite write) {
    this.write = write;
    String told = SparkContext.getOrCreate().getLocalProperty("spark.jobGroup.id");
    // A query runs as a job group named after its run. Without it the table object stands for the driver.
    run = told != null ? told : write.queryId() + "@" + System.identityHashCode(write.table());
  }

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo physical) {
    write
        .table()
        .onceForRun(
            run,
            () ->
                write
                    .table()
                    .process
                    .call(
                        "takeOverQuery",
                        "plan", write.plan(),
                        "query", write.queryId(),
                        "run", run,
                        "epoch", epoch()));
    return new Factory(write.begin(physical, run, epoch()));
  }

  /** The number of the micro-batch that is run, as Spark tells it to its own parts. */
  private static Long epoch() {
    String told = SparkContext.getOrCreate().getLocalProperty("streaming.sql.batchId");
    return told == null ? null : Long.valueOf(told);
  }

  @Override
  public boolean useCommitCoordinator() {
    return write.useCommitCoordinator();
  }

  @Override
  public void commit(long epoch, WriterCommitMessage[] messages) {
    Object[] ofQuery = {"query", write.queryId(), "run", run, "epoch", epoch};
    List<String> offsets = write.offsets(epoch);
    JsonNode report =
        offsets == null
            ? write.end("commitWrite", messages, ofQuery)
            : write.end("commitWrite", messages, CatalogProcess.with(ofQuery, "offsets", offsets));
    write.table().report(report);
    MetricSources.committed(report);
  }

  @Override
  public void abort(long epoch, WriterCommitMessage[] messages) {
    write.abort(messages);
  }

  /** Spark's own tasks; the epoch's number is the driver's matter. */
  private static final class Factory implements StreamingDataWriterFactory {
    private final DataWriterFactory tasks;

    Factory(DataWriterFactory tasks) {
      this.tasks = tasks;
    }

    @Override
    public DataWriter<InternalRow> createWriter(int partition, long task, long epoch) {
      return tasks.createWriter(partition, task);
    }
  }
}
