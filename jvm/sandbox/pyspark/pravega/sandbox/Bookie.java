package pyspark.pravega.sandbox;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.Set;
import java.util.zip.CRC32C;

/**
 * BookKeeper's bookie, for a disk that may be full.
 *
 * <p>Its journal has no sums of its records. When a record was written in part, the zeros of the space that was taken in
 * advance follow, and BookKeeper takes it for a whole one. Then no reader of the ledger gets past it, and where there is
 * no second copy, the segments in it are never served again. Such a record was never acknowledged: it is cut off here,
 * before BookKeeper reads it. And the process ends before nothing can be written any more.
 */
public final class Bookie {
  /** Journals begin with "BKLG", and with their version. */
  private static final int MAGIC = 0x424b4c47;

  private static final int FIRST_VERSION = 5;
  private static final int SIZE = Integer.BYTES;
  private static final int FIRST_RECORD = 512;

  /** In place of a record's size; the size of what shall be passed over follows. */
  private static final int PADDING = -0x100;

  /**
   * In place of an entry's number: a ledger's key, that it is fenced, its explicit LAC, that all is written. The first
   * and the third have content, without a sum.
   */
  private static final Set<Long> NOTES = Set.of(-0x1000L, -0x2000L, -0x4000L, -0x8000L);

  /** Ledger, entry, last confirmed entry, length so far; then CRC32C of these and of the content, which follows. */
  private static final int HEAD = 4 * Long.BYTES;

  private static final long LEAST_FREE = 32L << 20;
  private static final long LOOK_MS = 20;
  private static final int FULL = 3;

  private Bookie() {}

  /**
   * Runs until it has ended.
   *
   * @param arguments as BookKeeper's own program takes them: `--conf` and the settings file
   * @throws Exception the settings or the journal can't be read
   */
  public static void main(String[] arguments) throws Exception {
    Properties settings = new Properties();
    try (InputStream file = Files.newInputStream(Path.of(arguments[1]))) {
      settings.load(file);
    }
    File journals = new File(settings.getProperty("journalDirectory"), "current");
    File[] files = journals.listFiles((ignored, name) -> name.endsWith(".txn"));
    for (File journal : files == null ? new File[0] : files) {
      cut(journal);
    }
    watch(new File(settings.getProperty("journalDirectory")));
    Class.forName("org.apache.bookkeeper.server.Main")
        .getMethod("main", String[].class)
        .invoke(null, (Object) arguments);
  }

  /**
   * Ends the process while what it has begun can still be written.
   *
   * <p>When a file of ledgers was written in part, BookKeeper writes the whole again behind that, and its index then
   * leads to other places.
   */
  private static void watch(File folder) {
    Thread watching =
        new Thread(
            () -> {
              while (!folder.exists() || folder.getUsableSpace() >= LEAST_FREE) {
                try {
                  Thread.sleep(LOOK_MS);
                } catch (InterruptedException error) {
                  return;
                }
              }
              System.err.println("the disk of " + folder.getAbsolutePath() + " is full: the bookie ends");
              Runtime.getRuntime().halt(FULL);
            },
            "disk");
    watching.setDaemon(true);
    watching.start();
  }

  /** Cuts off a last record that was written in part; one in the midst was damaged otherwise, and stays. */
  private static void cut(File journal) throws IOException {
    try (RandomAccessFile file = new RandomAccessFile(journal, "rw")) {
      if (file.length() < FIRST_RECORD) {
        return;
      }
      ByteBuffer content = file.getChannel().map(FileChannel.MapMode.READ_ONLY, 0, file.length());
      if (content.getInt() != MAGIC || content.getInt() < FIRST_VERSION) {
        return;
      }
      int end = end(content);
      int last = content.limit();
      while (last > end && content.get(last - 1) == 0) {
        last--;
      }
      if (last > end && last <= end + size(content, end)) {
        System.err.println(journal + ": the last record, at " + end + ", was written in part, and is cut off");
        file.setLength(end);
        file.getFD().sync();
      }
    }
  }

  /** Where the first record begins that isn't whole, or the zeros behind the last one. */
  private static int end(ByteBuffer journal) {
    int at = FIRST_RECORD;
    while (true) {
      int size = size(journal, at);
      if (size <= SIZE || at + size > journal.limit() || size < 0 || !whole(journal, at)) {
        return at;
      }
      at += size;
    }
  }

  /** How many bytes a record, or padding, has with its size; no more than the size when there is none. */
  private static int size(ByteBuffer journal, int at) {
    if (at + 2 * SIZE > journal.limit()) {
      return SIZE;
    }
    int size = journal.getInt(at);
    // A size that was written in part may be anything.
    return size == PADDING ? 2 * SIZE + Math.max(0, journal.getInt(at + SIZE)) : SIZE + Math.max(0, size);
  }

  private static boolean whole(ByteBuffer journal, int at) {
    int size = journal.getInt(at);
    if (size == PADDING) {
      return true;
    }
    ByteBuffer record = journal.duplicate().position(at + SIZE).limit(at + SIZE + size).slice();
    if (size < 2 * Long.BYTES) {
      return false;
    }
    long entry = record.getLong(Long.BYTES);
    if (entry < 0) {
      // A key that ends with a zero may be whole. It was never acknowledged, as no entry follows.
      boolean partly = size > 2 * Long.BYTES && record.get(size - 1) == 0 && !follows(journal, at + SIZE + size);
      return NOTES.contains(entry) && !partly;
    }
    if (size < HEAD + SIZE) {
      return false;
    }
    CRC32C sum = new CRC32C();
    sum.update(record.duplicate().limit(HEAD));
    sum.update(record.duplicate().position(HEAD + SIZE));
    return (int) sum.getValue() == record.getInt(HEAD);
  }

  /** Whether anything but zeros follows. */
  private static boolean follows(ByteBuffer journal, int at) {
    for (int place = at; place < journal.limit(); place++) {
      if (journal.get(place) != 0) {
        return true;
      }
    }
    return false;
  }
}
