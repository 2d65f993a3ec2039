package pyspark.pravega.sandbox;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/**
 * A Pravega that keeps its data, in one JVM: ZooKeeper, a bookie, a segment store and a controller, each as it would run
 * alone. Pravega's standalone server can't: it makes a new cluster at each start, and its storage is in memory.
 */
public final class Durable {
  private static final String LOOPBACK = "127.0.0.1";
  private static final int SESSION_MS = 10_000;
  private static final int POLL_MS = 20;
  private static final int FAILED = 3;
  private static final int TERMINATED = 143;

  private Durable() {}

  /**
   * Runs until it is killed, or one of the four has ended.
   *
   * @param arguments ZooKeeper's port, its settings file, the bookie's settings file, and the path in ZooKeeper where
   *     BookKeeper notes ledgers. The segment store and the controller take theirs from system properties
   * @throws Exception ZooKeeper can't be prepared
   */
  public static void main(String[] arguments) throws Exception {
    // The servers' own hooks wait for each other, for minutes. Whatever was acknowledged is on the disk already.
    Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(TERMINATED), "halt"));
    int port = Integer.parseInt(arguments[0]);
    run("zookeeper", "org.apache.zookeeper.server.quorum.QuorumPeerMain", arguments[1]);
    prepare(port, arguments[3]);
    run("bookie", "org.apache.bookkeeper.server.Main", "--conf", arguments[2]);
    run("segment-store", "io.pravega.segmentstore.server.host.ServiceStarter");
    run("controller", "io.pravega.controller.server.Main");
  }

  private static void run(String name, String program, String... arguments) {
    new Thread(
            () -> {
              try {
                Class.forName(program).getMethod("main", String[].class).invoke(null, (Object) arguments);
                System.err.println(name + " has ended");
              } catch (ReflectiveOperationException error) {
                error.printStackTrace();
              }
              Runtime.getRuntime().halt(FAILED);
            },
            name)
        .start();
  }

  private static void prepare(int port, String ledgers) throws IOException, InterruptedException, KeeperException {
    awaitListener(port);
    CountDownLatch connected = new CountDownLatch(1);
    ZooKeeper client =
        new ZooKeeper(
            LOOPBACK + ":" + port,
            SESSION_MS,
            event -> {
              if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
              }
            });
    try {
      if (!connected.await(SESSION_MS, TimeUnit.MILLISECONDS)) {
        throw new IOException("ZooKeeper doesn't answer on port " + port);
      }
      forgetTheDead(client, "/");
      // BookKeeper's client looks at it before the first bookie has made it.
      int end = 0;
      String path = ledgers + "/available/readonly";
      while (end < path.length()) {
        int slash = path.indexOf('/', end + 1);
        end = slash < 0 ? path.length() : slash;
        if (client.exists(path.substring(0, end), false) == null) {
          client.create(path.substring(0, end), new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        }
      }
    } finally {
      client.close();
    }
  }

  /** Removes what servers of an earlier start hold by their sessions, which nobody would believe dead for seconds. */
  private static void forgetTheDead(ZooKeeper client, String path) throws InterruptedException, KeeperException {
    for (String name : client.getChildren(path, false)) {
      String child = path.length() == 1 ? path + name : path + "/" + name;
      if (client.exists(child, false).getEphemeralOwner() != 0) {
        client.delete(child, -1);
      } else {
        forgetTheDead(client, child);
      }
    }
  }

  private static void awaitListener(int port) throws InterruptedException {
    while (true) {
      try (Socket socket = new Socket()) {
        socket.connect(new InetSocketAddress(LOOPBACK, port));
        return;
      } catch (IOException error) {
        Thread.sleep(POLL_MS);
      }
    }
  }
}
