package pyspark.pravega.thrift;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.concurrent.CountDownLatch;
import org.apache.hadoop.hive.common.ServerUtils;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hive.service.Service;
import org.apache.hive.service.cli.CLIService;
import org.apache.hive.service.cli.session.SessionManager;
import org.apache.hive.service.server.HiveServer2;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.hive.HiveUtils$;
import org.apache.spark.sql.hive.thriftserver.HiveThriftServer2;
import org.apache.spark.sql.hive.thriftserver.SparkSQLEnv;
import org.apache.spark.sql.hive.thriftserver.SparkSQLSessionManager;
import org.apache.spark.util.ShutdownHookManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.runtime.BoxedUnit;

/** Starts Spark's Thrift server, with {@link TreeOperations} in it; takes the same arguments as Spark's main class. */
public final class ThriftServer {
  private static final Logger LOG = LoggerFactory.getLogger(ThriftServer.class);

  private ThriftServer() {}

  /** Starts the server and waits until it is stopped. */
  public static void main(String[] arguments) {
    new HiveServer2.ServerOptionsProcessor("HiveThriftServer2").parse(arguments);
    SparkSQLEnv.init();
    ShutdownHookManager.addShutdownHook(() -> {
      SparkSQLEnv.stop(0);
      return BoxedUnit.UNIT;
    });
    try {
      run(SparkSQLEnv.sparkSession());
    } catch (Exception error) {
      LOG.error("the Thrift server can't start", error);
      System.exit(-1);
    }
  }

  private static void run(SparkSession session) throws Exception {
    SparkContext context = session.sparkContext();
    HiveConf conf =
        HiveUtils$.MODULE$
            .newClientForExecution(context.conf(), session.sessionState().newHadoopConf())
            .conf();
    if (!"hive".equals(context.conf().get("spark.sql.catalogImplementation", ""))) {
      // When a session ends, Hive would make a metastore with a database (Derby), only to ask whether it is in this JVM.
      conf.setVar(HiveConf.ConfVars.METASTOREURIS, "none");
      // And when it is first asked for functions or kinds of tables, to prepare rights that it doesn't look at.
      conf.set("hive.internal.ss.authz.settings.applied.marker", "true");
    }
    ServerUtils.cleanUpScratchDir(conf);
    HiveThriftServer2 server = new HiveThriftServer2(session);
    server.init(conf);
    putIn(server);
    listen(server, context);
    CountDownLatch stopped = new CountDownLatch(1);
    context.addSparkListener(
        new SparkListener() {
          @Override
          public void onApplicationEnd(SparkListenerApplicationEnd end) {
            stopped.countDown();
          }
        });
    server.start();
    // When the main method of a class is over that spark-submit doesn't know, it stops Spark.
    stopped.await();
  }

  private static void putIn(HiveThriftServer2 server) throws ReflectiveOperationException {
    for (Service service : server.getServices()) {
      if (service instanceof CLIService cli) {
        SessionManager sessions = cli.getSessionManager();
        TreeOperations operations = new TreeOperations();
        set(SessionManager.class, sessions, "operationManager", operations);
        // It is made when it is asked for, which init has done.
        set(SparkSQLSessionManager.class, sessions, "sparkSqlOperationManager", operations);
      }
    }
  }

  /** Spark does it after the start, when a client may already be there. */
  private static void listen(HiveThriftServer2 server, SparkContext context) throws ReflectiveOperationException {
    Class<?> companion = Class.forName(HiveThriftServer2.class.getName() + "$");
    Method create = companion.getDeclaredMethod("createListenerAndUI", HiveThriftServer2.class, SparkContext.class);
    create.setAccessible(true);
    create.invoke(companion.getField("MODULE$").get(null), server, context);
  }

  private static void set(Class<?> of, Object object, String field, Object value) throws ReflectiveOperationException {
    Field found = of.getDeclaredField(field);
    found.setAccessible(true);
    found.set(object, value);
  }
}
