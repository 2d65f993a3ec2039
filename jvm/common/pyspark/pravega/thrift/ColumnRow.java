package pyspark.pravega.thrift;

import java.sql.DatabaseMetaData;
import java.sql.Types;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.CharType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.VarcharType;

/** A column as JDBC's getColumns describes it. */
final class ColumnRow {
  private static final int DECIMAL_RADIX = 10;

  private ColumnRow() {}

  /** The row; the position counts from 1. */
  static Object[] of(Tree.Entry entry, Column column, int position) {
    DataType type = column.dataType();
    boolean nullable = column.nullable();
    return new Object[] {
      entry.catalogName(), // TABLE_CAT
      entry.namespace(), // TABLE_SCHEM
      entry.identifier().name(), // TABLE_NAME
      column.name(), // COLUMN_NAME
      code(type), // DATA_TYPE
      type.sql(), // TYPE_NAME
      size(type), // COLUMN_SIZE
      null, // BUFFER_LENGTH
      digits(type), // DECIMAL_DIGITS
      type instanceof org.apache.spark.sql.types.NumericType ? DECIMAL_RADIX : null, // NUM_PREC_RADIX
      nullable ? DatabaseMetaData.columnNullable : DatabaseMetaData.columnNoNulls, // NULLABLE
      column.comment() == null ? "" : column.comment(), // REMARKS
      null, // COLUMN_DEF
      null, // SQL_DATA_TYPE
      null, // SQL_DATETIME_SUB
      null, // CHAR_OCTET_LENGTH
      position, // ORDINAL_POSITION
      nullable ? "YES" : "NO", // IS_NULLABLE
      null, // SCOPE_CATALOG
      null, // SCOPE_SCHEMA
      null, // SCOPE_TABLE
      null, // SOURCE_DATA_TYPE
      "NO" // IS_AUTO_INCREMENT
    };
  }

  private static int code(DataType type) {
    if (type instanceof CharType) return Types.CHAR;
    if (type instanceof VarcharType || type instanceof StringType) return Types.VARCHAR;
    if (type instanceof BooleanType) return Types.BOOLEAN;
    if (type instanceof ByteType) return Types.TINYINT;
    if (type instanceof ShortType) return Types.SMALLINT;
    if (type instanceof IntegerType) return Types.INTEGER;
    if (type instanceof LongType) return Types.BIGINT;
    if (type instanceof FloatType) return Types.FLOAT;
    if (type instanceof DoubleType) return Types.DOUBLE;
    if (type instanceof DecimalType) return Types.DECIMAL;
    if (type instanceof DateType) return Types.DATE;
    if (type instanceof TimestampType || type instanceof TimestampNTZType) return Types.TIMESTAMP;
    if (type instanceof BinaryType) return Types.BINARY;
    if (type instanceof ArrayType) return Types.ARRAY;
    if (type instanceof MapType) return Types.JAVA_OBJECT;
    if (type instanceof StructType) return Types.STRUCT;
    return type instanceof NullType ? Types.NULL : Types.OTHER;
  }

  /** Digits of numbers, letters of texts that have a limit; null where there is none. */
  private static Integer size(DataType type) {
    if (type instanceof CharType text) return text.length();
    if (type instanceof VarcharType text) return text.length();
    if (type instanceof DecimalType decimal) return decimal.precision();
    if (type instanceof ByteType) return 3;
    if (type instanceof ShortType) return 5;
    if (type instanceof IntegerType) return 10;
    if (type instanceof LongType) return 19;
    if (type instanceof FloatType) return 7;
    if (type instanceof DoubleType) return 15;
    if (type instanceof BooleanType) return 1;
    if (type instanceof DateType) return 10;
    return type instanceof TimestampType || type instanceof TimestampNTZType ? 29 : null;
  }

  private static Integer digits(DataType type) {
    if (type instanceof DecimalType decimal) return decimal.scale();
    if (type instanceof FloatType) return 7;
    if (type instanceof DoubleType) return 15;
    if (type instanceof TimestampType || type instanceof TimestampNTZType) return 6;
    return code(type) == Types.TINYINT || code(type) == Types.SMALLINT || code(type) == Types.INTEGER
            || code(type) == Types.BIGINT
        ? 0
        : null;
  }
}
