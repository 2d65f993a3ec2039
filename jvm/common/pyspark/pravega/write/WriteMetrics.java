package pyspark.pravega.write;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** What Spark shows of a commit: rows, bytes, transactions and milliseconds. */
public final class WriteMetrics {
  private static final String[] NAMES = {"rows", "bytes", "transactions", "milliseconds"};

  private WriteMetrics() {}

  /** For Spark's UI. */
  static CustomMetric[] all() {
    return new CustomMetric[] {new Rows(), new Bytes(), new Transactions(), new Milliseconds()};
  }

  /** A commit's, as the catalog process reports them. */
  static CustomTaskMetric[] of(JsonNode report) {
    CustomTaskMetric[] values = new CustomTaskMetric[NAMES.length];
    for (int i = 0; i < NAMES.length; i++) {
      values[i] = new Value(NAMES[i], report.get(NAMES[i]).asLong());
    }
    return values;
  }

  /** A commit's, for a streaming query's progress. */
  public static Map<String, String> progress(JsonNode report) {
    Map<String, String> values = new LinkedHashMap<>();
    for (String name : NAMES) {
      values.put(name, report.get(name).asText());
    }
    values.put("repeated", report.get("repeated").asText());
    return values;
  }

  private record Value(String name, long value) implements CustomTaskMetric {}

  /** Rows written. */
  public static final class Rows extends CustomSumMetric {
    @Override
    public String name() {
      return "rows";
    }

    @Override
    public String description() {
      return "rows written to Pravega";
    }
  }

  /** Bytes written. */
  public static final class Bytes extends CustomSumMetric {
    @Override
    public String name() {
      return "bytes";
    }

    @Override
    public String description() {
      return "bytes written to Pravega, frames included";
    }
  }

  /** Transactions of tasks. */
  public static final class Transactions extends CustomSumMetric {
    @Override
    public String name() {
      return "transactions";
    }

    @Override
    public String description() {
      return "Pravega transactions of tasks, made one commit";
    }
  }

  /** How long the commit took. */
  public static final class Milliseconds extends CustomSumMetric {
    @Override
    public String name() {
      return "milliseconds";
    }

    @Override
    public String description() {
      return "milliseconds of the commit to Pravega";
    }
  }
}
