package pyspark.pravega.bridge;

import java.io.File;
import java.util.Arrays;
import java.util.stream.Collectors;
import org.apache.spark.SparkEnv;

/** The folders in which this program keeps its blocks, and which it removes when it ends. */
public final class BlockFolders {
  private BlockFolders() {}

  /** With commas between, as Spark tells its Python workers; empty where no Spark runs. */
  public static String all() {
    SparkEnv environment = SparkEnv.get();
    if (environment == null) {
      return "";
    }
    return Arrays.stream(environment.blockManager().diskBlockManager().localDirs())
        .map(File::getPath)
        .collect(Collectors.joining(","));
  }
}
