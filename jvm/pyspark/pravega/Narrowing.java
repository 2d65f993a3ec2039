package pyspark.pravega;

import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;

/** What every scan lets Spark narrow: columns, rows and their number. */
abstract class Narrowing
    implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownV2Filters, SupportsPushDownLimit {
  final Moments moments = Moments.ofQuery();
  StructType wanted;
  Predicate[] predicates = new Predicate[0];
  Integer limit;

  Narrowing(StructType all) {
    wanted = all;
  }

  @Override
  public void pruneColumns(StructType required) {
    wanted = required;
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] given) {
    predicates = given;
    // They only narrow what is read or asked for: Spark looks at each row again.
    return given;
  }

  @Override
  public Predicate[] pushedPredicates() {
    return new Predicate[0];
  }

  @Override
  public boolean pushLimit(int rows) {
    limit = rows;
    return true;
  }
}
