package pyspark.pravega.read;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;

/** Statistics of a column, in Spark's own values. */
record ColumnFigures(
    OptionalLong distinctCount,
    OptionalLong nullCount,
    Optional<Object> min,
    Optional<Object> max,
    OptionalLong avgLen,
    OptionalLong maxLen)
    implements ColumnStatistics {
  /**
   * Those of a scan's columns.
   *
   * @param told by the columns' names, as the catalog process tells them
   * @param schema what the scan reads
   */
  static Map<NamedReference, ColumnStatistics> of(JsonNode told, StructType schema) {
    Map<NamedReference, ColumnStatistics> figures = new HashMap<>();
    List<String> names = Arrays.asList(schema.fieldNames());
    for (Map.Entry<String, JsonNode> column : told.properties()) {
      if (names.contains(column.getKey())) {
        JsonNode one = column.getValue();
        DataType type = schema.apply(column.getKey()).dataType();
        figures.put(
            FieldReference.column(column.getKey()),
            new ColumnFigures(
                number(one, "distinct"),
                number(one, "nulls"),
                value(one.get("least"), type),
                value(one.get("greatest"), type),
                number(one, "length"),
                number(one, "longest")));
      }
    }
    return figures;
  }

  private static OptionalLong number(JsonNode one, String name) {
    return OptionalLong.of(one.get(name).asLong());
  }

  /** None of texts and bytes, which Spark compares by no bounds. */
  private static Optional<Object> value(JsonNode told, DataType type) {
    if (told == null || told.isNull()) {
      return Optional.empty();
    }
    if (type instanceof BooleanType) {
      return Optional.of(told.asInt() != 0);
    }
    if (type instanceof ByteType) {
      return Optional.of((byte) told.asInt());
    }
    if (type instanceof ShortType) {
      return Optional.of((short) told.asInt());
    }
    if (type instanceof IntegerType || type instanceof DateType) {
      return Optional.of(told.asInt());
    }
    if (type instanceof LongType || type instanceof TimestampType) {
      return Optional.of(told.asLong());
    }
    if (type instanceof FloatType) {
      return Optional.of(Float.parseFloat(told.asText()));
    }
    if (type instanceof DoubleType) {
      return Optional.of(Double.parseDouble(told.asText()));
    }
    if (type instanceof DecimalType decimal) {
      return Optional.of(Decimal.apply(new BigDecimal(told.asText()), decimal.precision(), decimal.scale()));
    }
    return Optional.empty();
  }
}
