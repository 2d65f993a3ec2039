package pyspark.pravega.catalog;

import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.ChangelogRange;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import pyspark.pravega.bridge.Names;

/** What was committed between two versions of a stream: rows, or changes of them where the table has a key. */
final class PravegaChangelog implements Changelog {
  private static final Set<String> SPARKS =
      Set.of(
          "startingversion",
          "endingversion",
          "startingtimestamp",
          "endingtimestamp",
          "startingboundinclusive",
          "endingboundinclusive",
          "deduplicationmode",
          "computeupdates");

  private final PravegaTable table;

  PravegaChangelog(PravegaTable table) {
    this.table = table;
  }

  /** The bounds of a range as the catalog process reads them. */
  static Map<String, Object> bounds(ChangelogContext context) {
    Map<String, Object> bounds = new HashMap<>();
    ChangelogRange range = context.range();
    if (range instanceof ChangelogRange.VersionRange versions) {
      bounds.put("from_version", versions.startingVersion());
      bounds.put("to_version", versions.endingVersion().orElse(null));
    } else if (range instanceof ChangelogRange.TimestampRange times) {
      bounds.put("from_timestamp", times.startingTimestamp());
      bounds.put("to_timestamp", times.endingTimestamp().orElse(null));
    }
    if (!bounds.isEmpty()) {
      bounds.put("from_inclusive", range.startingBoundInclusive());
      bounds.put("to_inclusive", range.endingBoundInclusive());
    }
    return bounds;
  }

  @Override
  public String name() {
    return table.name();
  }

  @Override
  public Column[] columns() {
    return table.columns();
  }

  @Override
  public boolean containsCarryoverRows() {
    return false;
  }

  @Override
  public boolean containsIntermediateChanges() {
    // A row of a table with a key may change with each version.
    return !table.primaryKey().isEmpty();
  }

  @Override
  public NamedReference[] rowId() {
    return Names.references(table.primaryKey());
  }

  @Override
  public NamedReference rowVersion() {
    return Expressions.column("_commit_version");
  }

  @Override
  public boolean representsUpdateAsDeleteAndInsert() {
    return false;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    // Spark has read its own options into the context, and leaves them here.
    Map<String, String> own = new HashMap<>(options.asCaseSensitiveMap());
    own.keySet().removeIf(key -> SPARKS.contains(key.toLowerCase(Locale.ROOT)));
    return table.newScanBuilder(new CaseInsensitiveStringMap(own));
  }
}
