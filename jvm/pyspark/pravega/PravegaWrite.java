package pyspark.pravega;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import scala.Option;

/** An append: tasks run Spark's Python writer, begin and end are the catalog process's. */
final class PravegaWrite implements Write, BatchWrite {
  private final PravegaTable table;
  private final LogicalWriteInfo info;
  private String writer;

  private PravegaWrite(PravegaTable table, LogicalWriteInfo info) {
    this.table = table;
    this.info = info;
  }

  @Override
  public String description() {
    return "Pravega " + table.name();
  }

  @Override
  public BatchWrite toBatch() {
    return this;
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
    JsonNode begun =
        table.process.call(
            "beginWrite",
            "namespace", table.identifier.namespace(),
            "table", table.identifier.name(),
            "options", info.options().asCaseSensitiveMap());
    writer = begun.get("writer").asText();
    table.process.callResident(
        writer, "startWrite", "writer", writer, "partitions", physical.numPartitions());
    byte[] function = Base64.getDecoder().decode(begun.get("function").asText());
    return new PythonBatchWriterFactory(
        table.process.python(), function, info.schema(), Option.empty(), Option.empty());
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    end("commitWrite", messages);
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    if (writer != null) {
      end("abortWrite", messages);
    }
  }

  private void end(String method, WriterCommitMessage[] messages) {
    table.process.dismiss(writer);
    List<String> pickled = new ArrayList<>();
    for (WriterCommitMessage message : messages) {
      pickled.add(
          message == null
              ? null
              : Base64.getEncoder().encodeToString(((PythonWriterCommitMessage) message).pickledMessage()));
    }
    table.process.callAgain(method, "writer", writer, "messages", pickled);
  }

  /** Appends only: a stream can't be overwritten. */
  static final class Builder implements WriteBuilder {
    private final PravegaTable table;
    private final LogicalWriteInfo info;

    Builder(PravegaTable table, LogicalWriteInfo info) {
      this.table = table;
      this.info = info;
    }

    @Override
    public Write build() {
      return new PravegaWrite(table, info);
    }
  }
}
