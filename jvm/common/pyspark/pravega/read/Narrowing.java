package pyspark.pravega.read;

import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;

/** What every scan lets Spark narrow: columns, rows and their number. */
public abstract class Narrowing
    implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownV2Filters, SupportsPushDownLimit {
  public final Moments moments = Moments.ofQuery();
  public StructType wanted;
  public Predicate[] predicates = new Predicate[0];
  public Integer limit;

  public Narrowing(StructType all) {
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
