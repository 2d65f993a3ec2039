package pyspark.pravega.sandbox;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.concurrent.CountDownLatch;
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
   * @throws Exception ZooKeeper doesn't do what it is asked for
   */
  public static void main(String[] arguments) throws Exception {
    // The servers' own hooks wait for each other, for minutes. Whatever was acknowledged is on the disk already.
    Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(TERMINATED), "halt"));
    int port = Integer.parseInt(arguments[0]);
    String ledgers = arguments[3];
    run("zookeeper", "org.apache.zookeeper.server.quorum.QuorumPeerMain", arguments[1]);
    ZooKeeper client = connect(port);
    try {
      forgetTheDead(client, "/");
      // BookKeeper's client looks at it before the first bookie has made it.
      makePath(client, ledgers + "/available/readonly");
      run("bookie", Bookie.class.getName(), "--conf", arguments[2]);
      awaitBookie(client, ledgers + "/available");
    } finally {
      client.close();
    }
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

  private static ZooKeeper connect(int port) throws IOException, InterruptedException {
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
    connected.await();
    return client;
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

  private static void makePath(ZooKeeper client, String path) throws InterruptedException, KeeperException {
    int end = 0;
    while (end < path.length()) {
      int slash = path.indexOf('/', end + 1);
      end = slash < 0 ? path.length() : slash;
      if (client.exists(path.substring(0, end), false) == null) {
        client.create(path.substring(0, end), new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
      }
    }
  }

  /** Without a bookie each of the segment store's containers would fail, and be started again 10 seconds later. */
  private static void awaitBookie(ZooKeeper client, String path) throws InterruptedException, KeeperException {
    while (client.getChildren(path, false).size() < 2 && client.getChildren(path + "/readonly", false).isEmpty()) {
      Thread.sleep(POLL_MS);
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
