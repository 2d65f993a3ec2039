package pyspark.pravega;

import java.util.Arrays;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A stream as a table. */
final class PravegaTable implements SupportsRead, SupportsWrite, SupportsMetadataColumns {
  final CatalogProcess process;
  final Identifier identifier;
  private final String catalog;
  private final StructType schema;
  private final Map<String, String> properties;
  private final StructType metadata;

  PravegaTable(
      CatalogProcess process,
      String catalog,
      Identifier identifier,
      StructType schema,
      Map<String, String> properties,
      StructType metadata) {
    this.process = process;
    this.catalog = catalog;
    this.identifier = identifier;
    this.schema = schema;
    this.properties = properties;
    this.metadata = metadata;
  }

  @Override
  public String name() {
    return catalog + "." + identifier;
  }

  @Override
  @SuppressWarnings("deprecation")
  public StructType schema() {
    // Columns of CHAR and VARCHAR travel as strings that know what they were.
    return CharVarcharUtils.getRawSchema(schema);
  }

  @Override
  public Map<String, String> properties() {
    return properties;
  }

  @Override
  public Transform[] partitioning() {
    String key = properties.get("routing-key");
    if (key == null) {
      return new Transform[0];
    }
    return new Transform[] {Expressions.bucket(Integer.parseInt(properties.get("segments")), key)};
  }

  @Override
  public Set<TableCapability> capabilities() {
    return EnumSet.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ, TableCapability.BATCH_WRITE);
  }

  @Override
  public MetadataColumn[] metadataColumns() {
    return Arrays.stream(metadata.fields()).map(MetadataField::new).toArray(MetadataColumn[]::new);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new PravegaScan.Builder(this, options);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new PravegaWrite.Builder(this, info);
  }

  /** All columns, as Spark reads them. */
  StructType allFields() {
    return schema;
  }

  /** The fields of the columns that a query wants; of a struct always the whole. */
  StructType fields(StructType wanted) {
    return new StructType(Arrays.stream(wanted.fieldNames()).map(this::field).toArray(StructField[]::new));
  }

  private StructField field(String name) {
    StructType from = Arrays.asList(schema.fieldNames()).contains(name) ? schema : metadata;
    return from.apply(name);
  }

  private record MetadataField(StructField field) implements MetadataColumn {
    @Override
    public String name() {
      return field.name();
    }

    @Override
    public DataType dataType() {
      return field.dataType();
    }

    @Override
    public boolean isNullable() {
      return field.nullable();
    }
  }
}
