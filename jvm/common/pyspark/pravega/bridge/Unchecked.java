package pyspark.pravega.bridge;

/** Throws checked exceptions where Spark's interfaces don't declare them but its callers expect them. */
public final class Unchecked {
  private Unchecked() {}

  /** Throws it; never returns. */
  @SuppressWarnings("unchecked")
  public static <E extends Throwable> RuntimeException sneak(Throwable error) throws E {
    throw (E) error;
  }
}
