package pyspark.pravega;

/** Throws checked exceptions where Spark's interfaces don't declare them but its callers expect them. */
final class Unchecked {
  private Unchecked() {}

  @SuppressWarnings("unchecked")
  static <E extends Throwable> RuntimeException sneak(Throwable error) throws E {
    throw (E) error;
  }
}
