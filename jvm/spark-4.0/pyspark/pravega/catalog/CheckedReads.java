package pyspark.pravega.catalog;

import java.util.Set;

/** Before 4.3 a catalog isn't told the options of a read: they are checked when its scan is planned. */
public abstract class CheckedReads extends Relations {
  /** The options of reads that could be checked when a table is loaded. */
  public abstract Set<String> checkedOptions();
}
