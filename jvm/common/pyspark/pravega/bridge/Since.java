package pyspark.pravega.bridge;

import java.util.Arrays;
import org.apache.spark.package$;
import pyspark.pravega.PravegaException;

/** Which Spark this is, where it matters to users. */
public final class Since {
  /** The Sparks that there are jars for, as {@code pyspark_pravega/spark/versions.py} has them. */
  private static final String SUPPORTED = "4.0 to 4.3";

  private Since() {}

  /** The version of the Spark that runs. */
  static String running() {
    return package$.MODULE$.SPARK_VERSION();
  }

  /** Whether the Spark that runs is the one that this jar was compiled for. */
  public static boolean fits() {
    String spark = compiledFor();
    return spark == null || spark.equals(minor(running()));
  }

  /** The minor version of Spark that the jar is for, as its manifest has it; null outside of a jar. */
  private static String compiledFor() {
    return Since.class.getPackage().getImplementationVersion();
  }

  /** Refuses a Spark that this jar isn't for, as far as its classes load there. */
  public static void check() {
    if (!fits()) {
      throw Unchecked.sneak(
          new PravegaException(
              "PRAVEGA_INVALID_CONFIGURATION",
              PravegaException.INVALID_OPTION,
              "pyspark-pravega runs on Spark " + SUPPORTED + ", with a jar for each: this jar is for Spark "
                  + compiledFor() + ", and this is Spark " + running() + " (pravega-spark config names the jar)"));
    }
  }

  /** Whether the Spark that runs is of a minor version, or a later one. */
  public static boolean isAtLeast(String version) {
    return Arrays.compare(numbers(running()), numbers(version)) >= 0;
  }

  private static String minor(String version) {
    int[] numbers = numbers(version);
    return numbers[0] + "." + numbers[1];
  }

  /** The first two numbers of a version. */
  private static int[] numbers(String version) {
    return Arrays.stream(version.split("[.]")).limit(2).mapToInt(Integer::parseInt).toArray();
  }

  /**
   * What a later Spark can do.
   *
   * @param what and why this one can't, as the beginning of a sentence that ends with the version
   * @param version since which it can
   */
  public static PravegaException refusal(String what, String version) {
    return new PravegaException(
        "PRAVEGA_UNSUPPORTED_OPERATION",
        PravegaException.UNSUPPORTED,
        what + " since Spark " + version + ", and this is Spark " + running());
  }
}
