package pyspark.pravega.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.unsafe.types.UTF8String;

/** A few rows that the catalog process has made: of a metadata table, or the result of a procedure. */
final class Rows implements LocalScan {
  private final StructType schema;
  private final List<InternalRow> rows = new ArrayList<>();

  Rows(StructType schema) {
    this.schema = schema;
  }

  Rows(StructType schema, JsonNode rows) {
    this(schema);
    add(rows);
  }

  /** Takes more rows, each a list of values. */
  void add(JsonNode more) {
    for (JsonNode row : more) {
      Object[] values = new Object[schema.size()];
      for (int i = 0; i < values.length; i++) {
        values[i] = value(row.get(i), schema.apply(i).dataType());
      }
      rows.add(new GenericInternalRow(values));
    }
  }

  int size() {
    return rows.size();
  }

  @Override
  public StructType readSchema() {
    return schema;
  }

  @Override
  public InternalRow[] rows() {
    return rows.toArray(new InternalRow[0]);
  }

  private static Object value(JsonNode node, DataType type) {
    if (node == null || node.isNull()) {
      return null;
    } else if (type instanceof StringType) {
      return UTF8String.fromString(node.asText());
    } else if (type instanceof BooleanType) {
      return node.asBoolean();
    } else if (type instanceof IntegerType) {
      return node.asInt();
    } else if (type instanceof DoubleType) {
      return node.asDouble();
    } else if (type instanceof ArrayType array) {
      List<Object> elements = new ArrayList<>();
      node.forEach(element -> elements.add(value(element, array.elementType())));
      return new GenericArrayData(elements);
    } else if (type instanceof MapType map) {
      // Entries are pairs.
      List<Object> keys = new ArrayList<>();
      List<Object> values = new ArrayList<>();
      node.forEach(entry -> {
        keys.add(value(entry.get(0), map.keyType()));
        values.add(value(entry.get(1), map.valueType()));
      });
      return new ArrayBasedMapData(new GenericArrayData(keys), new GenericArrayData(values));
    }
    // Numbers, and timestamps in microseconds.
    return node.asLong();
  }
}
