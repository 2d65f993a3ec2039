package pyspark.pravega.internals;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/** Spark's classes for the files of checkpoints, which are in another package since 4.1. */
public abstract class SparksFiles implements CheckpointFileManager {
  /** Who keeps the files. */
  protected CheckpointFileManager files;

  /** Spark's own for a folder. */
  public static CheckpointFileManager of(Path path, Configuration conf) {
    return CheckpointFileManager.create(path, conf);
  }

  @Override
  public void close() {
    files.close();
  }

  /** Spark's own for Hadoop's file systems. */
  public static class OnFileSystem extends FileSystemBasedCheckpointFileManager {
    public OnFileSystem(Path path, Configuration conf) {
      super(path, conf);
    }
  }
}
