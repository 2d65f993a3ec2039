package pyspark.pravega;

import java.io.File;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.permission.FsPermission;
import pyspark.pravega.bridge.Unchecked;
import pyspark.pravega.internals.SparksFiles;

/**
 * Writes the checkpoints of streaming queries: those on a local disk without starting a process for each file, all others
 * as Spark does by itself.
 *
 * <p>Spark's own choice for a local disk lets Hadoop run {@code chmod} and {@code readlink}, several times for each file,
 * and looks whether a file is there before it renames another one to it: two drivers may both see none. Here a file gets
 * its name by a hard link, which only one of them can make. Names, contents and checksums of the files are the same, so a
 * checkpoint may be written by either.
 */
public class CheckpointFiles extends SparksFiles {
  /** Spark's key. */
  private static final String CONFIGURED = "spark.sql.streaming.checkpointFileManagerClass";

  /**
   * @param path the folder of the checkpoint, or a folder in it
   * @param conf Hadoop's configuration, with Spark's settings in it
   */
  public CheckpointFiles(org.apache.hadoop.fs.Path path, Configuration conf) throws IOException {
    if (path.getFileSystem(conf) instanceof LocalFileSystem) {
      files = new OnThisMachine(path, conf);
    } else {
      Configuration withoutThis = new Configuration(conf);
      withoutThis.unset(CONFIGURED);
      files = of(path, withoutThis);
    }
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(org.apache.hadoop.fs.Path path, boolean overwriteIfPossible) {
    return files.createAtomic(path, overwriteIfPossible);
  }

  @Override
  public FSDataInputStream open(org.apache.hadoop.fs.Path path) {
    return files.open(path);
  }

  @Override
  public FileStatus[] list(org.apache.hadoop.fs.Path path, PathFilter filter) {
    return files.list(path, filter);
  }

  @Override
  public void mkdirs(org.apache.hadoop.fs.Path path) {
    files.mkdirs(path);
  }

  @Override
  public boolean exists(org.apache.hadoop.fs.Path path) {
    return files.exists(path);
  }

  @Override
  public void delete(org.apache.hadoop.fs.Path path) {
    files.delete(path);
  }

  @Override
  public boolean isLocal() {
    return files.isLocal();
  }

  @Override
  public org.apache.hadoop.fs.Path createCheckpointDirectory() {
    return files.createCheckpointDirectory();
  }

  /** Files on a disk of this machine, each written under a hidden name first. */
  private static class OnThisMachine extends OnFileSystem {
    private static final int BUFFER_BYTES = 4096;

    private final LocalFileSystem disk;
    private final Set<PosixFilePermission> permissions;

    OnThisMachine(org.apache.hadoop.fs.Path path, Configuration conf) throws IOException {
      super(path, conf);
      disk = (LocalFileSystem) path.getFileSystem(conf);
      FsPermission usual = FsPermission.getFileDefault().applyUMask(FsPermission.getUMask(conf));
      permissions = PosixFilePermissions.fromString(usual.toString());
    }

    /** Without the files that a killed driver was writing: Spark would take their folder for one that has entries. */
    @Override
    public FileStatus[] list(org.apache.hadoop.fs.Path path, PathFilter filter) {
      return Arrays.stream(super.list(path, filter))
          .filter(file -> !isUnfinished(file.getPath().getName()))
          .toArray(FileStatus[]::new);
    }

    @Override
    public FSDataOutputStream createTempFile(org.apache.hadoop.fs.Path path) {
      try {
        // Without a permission Hadoop starts no process.
        FSDataOutputStream stream =
            disk.create(
                path, null, true, BUFFER_BYTES, disk.getDefaultReplication(path), disk.getDefaultBlockSize(path), null);
        permit(disk.pathToFile(path));
        permit(disk.pathToFile(disk.getChecksumFile(path)));
        return stream;
      } catch (IOException error) {
        throw Unchecked.sneak(error);
      }
    }

    private void permit(File file) throws IOException {
      if (file.exists()) {
        Files.setPosixFilePermissions(file.toPath(), permissions);
      }
    }

    @Override
    public void renameTempFile(
        org.apache.hadoop.fs.Path from, org.apache.hadoop.fs.Path to, boolean overwriteIfPossible) {
      Path file = disk.pathToFile(from).toPath();
      Path named = disk.pathToFile(to).toPath();
      Path checksum = disk.pathToFile(disk.getChecksumFile(from)).toPath();
      Path checksumNamed = disk.pathToFile(disk.getChecksumFile(to)).toPath();
      try {
        if (overwriteIfPossible) {
          // No checksum at all is better than one of another file, should the process end in between.
          Files.deleteIfExists(checksumNamed);
          Files.move(file, named, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } else {
          if (!Files.exists(named)) {
            // Of an earlier file. Should another driver have put it there in this moment, its file is read unchecked.
            Files.deleteIfExists(checksumNamed);
          }
          nameFirst(file, named);
        }
        if (Files.exists(checksum)) {
          Files.move(checksum, checksumNamed, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        }
      } catch (FileAlreadyExistsException error) {
        delete(from);
        throw Unchecked.sneak(new org.apache.hadoop.fs.FileAlreadyExistsException(to + " is there already"));
      } catch (IOException error) {
        throw Unchecked.sneak(error);
      }
    }

    /** Gives a file its name, unless another file has it. */
    private static void nameFirst(Path file, Path named) throws IOException {
      try {
        Files.createLink(named, file);
      } catch (FileAlreadyExistsException error) {
        throw error;
      } catch (FileSystemException | UnsupportedOperationException error) {
        // A disk without hard links: as Spark does it.
        if (Files.exists(named)) {
          throw new FileAlreadyExistsException(named.toString());
        }
        Files.move(file, named, StandardCopyOption.ATOMIC_MOVE);
        return;
      }
      Files.delete(file);
    }

    private static boolean isUnfinished(String name) {
      return name.startsWith(".") && name.endsWith(".tmp");
    }
  }
}
