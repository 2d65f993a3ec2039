package pyspark.pravega.bridge;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.TextNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import pyspark.pravega.PravegaException;

/**
 * The Python process that makes the catalog's decisions: one for each configuration in this JVM, shared by all sessions
 * and threads, started when it is needed, started again when it has died, and gone with the JVM. A token that is
 * replaced is another configuration: so a process that nobody has asked for long ends, unless it is the last that was.
 */
public final class CatalogProcess {
  /** A text may be as long as memory allows: Jackson's own limit would end the process for all sessions. */
  private static final ObjectMapper JSON =
      new ObjectMapper(
          JsonFactory.builder()
              .streamReadConstraints(StreamReadConstraints.builder().maxStringLength(Integer.MAX_VALUE).build())
              .build());
  private static final Map<Map<String, Object>, CatalogProcess> PROCESSES = new ConcurrentHashMap<>();
  private static final Duration MOST_IDLE_LOOK = Duration.ofSeconds(5);
  /** The one that was asked last. */
  private static volatile CatalogProcess latest;

  static {
    Thread idle = new Thread(CatalogProcess::endIdleOnes, "pravega-catalog-idle");
    idle.setDaemon(true);
    idle.start();
  }

  private final Map<String, Object> configuration;
  private final List<String> command;
  private final Map<String, Resumption> residents = new LinkedHashMap<>();
  private Incarnation current;
  /** When it was last asked, by {@code System.nanoTime()}. */
  private long asked;
  private volatile JsonNode greeting;

  private CatalogProcess(List<String> command, Map<String, Object> configuration) {
    this.command = command;
    this.configuration = configuration;
    Runtime.getRuntime().addShutdownHook(new Thread(this::stop, "pravega-catalog-stop"));
  }

  /** The process for a configuration: a Python executable, catalog options and session configuration. */
  public static CatalogProcess of(String python, Map<String, String> options, Map<String, String> session) {
    Map<String, Object> configuration = new HashMap<>();
    configuration.put("python", python);
    configuration.put("options", options);
    configuration.put("session", session);
    return PROCESSES.computeIfAbsent(
        configuration,
        c -> new CatalogProcess(List.of(python, "-u", "-m", "pyspark_pravega.catalog.process.service"), c));
  }

  /** What the process said of itself when it first started; each one of the same configuration says the same. */
  public JsonNode greeting() {
    JsonNode known = greeting;
    if (known == null) {
      known = again(() -> incarnation().greeting);
      greeting = known;
    }
    return known;
  }

  /** Seconds that a process may take to start. It takes about one; much is for slow file systems. */
  private static long startLimit() {
    return Long.getLong("pyspark.pravega.catalog-start-s", 120);
  }

  /** Spark's handle for the functions that the process pickles. */
  public UserDefinedPythonDataSource python() {
    return PythonSource.of(greeting().get("python").asText());
  }

  /** Calls a method; parameters are a list of names and values. */
  public JsonNode call(String method, Object... parameters) {
    return incarnation().call(method, parameters(parameters));
  }

  /** Calls a method that may be done twice: once more when the process died meanwhile. */
  public JsonNode callAgain(String method, Object... parameters) {
    return again(() -> call(method, parameters));
  }

  /** Begins to call a method that may be done twice; who asks for the answer waits for it. */
  public Supplier<JsonNode> ahead(String method, Object... parameters) {
    Incarnation asked = incarnation();
    CompletableFuture<JsonNode> answer = asked.send(method, parameters(parameters));
    return () -> again(() -> asked.await(answer), () -> call(method, parameters));
  }

  private static JsonNode again(Supplier<JsonNode> question) {
    return again(question, question);
  }

  private static JsonNode again(Supplier<JsonNode> first, Supplier<JsonNode> then) {
    try {
      return first.get();
    } catch (RuntimeException error) {
      if (!(error.getCause() instanceof Died)) {
        throw error;
      }
      return then.get();
    }
  }

  /**
   * Calls a method that begins something which lasts.
   *
   * @param resume makes of its answer what is called, in each process that replaces a dead one, to go on with it: a
   *     method and its parameters; the key is that of {@link #dismiss}
   */
  public JsonNode begin(Function<JsonNode, Resumption> resume, String method, Object... parameters) {
    Incarnation asked = incarnation();
    JsonNode answer = asked.call(method, parameters(parameters));
    Resumption resumption = resume.apply(answer);
    synchronized (this) {
      residents.put(resumption.key, resumption);
      if (current != asked && !current.dead) {
        // It was replaced before the new one could be told.
        resume(resumption);
      }
    }
    return answer;
  }

  /** How what a method has begun goes on in another process. */
  public record Resumption(String key, String method, Object... parameters) {}

  private void resume(Resumption resumption) {
    current.send(resumption.method, parameters(resumption.parameters));
  }

  /** What was begun has ended. */
  public synchronized void dismiss(String key) {
    residents.remove(key);
  }

  /** Parameters and some more. */
  public static Object[] with(Object[] parameters, Object... more) {
    Object[] all = Arrays.copyOf(parameters, parameters.length + more.length);
    System.arraycopy(more, 0, all, parameters.length, more.length);
    return all;
  }

  private static Map<String, Object> parameters(Object... namesAndValues) {
    Map<String, Object> parameters = new HashMap<>();
    for (int i = 0; i < namesAndValues.length; i += 2) {
      parameters.put((String) namesAndValues[i], namesAndValues[i + 1]);
    }
    return parameters;
  }

  private synchronized Incarnation incarnation() {
    asked = System.nanoTime();
    latest = this;
    if (current == null || current.dead) {
      current = new Incarnation();
      new ArrayList<>(residents.values()).forEach(this::resume);
    }
    return current;
  }

  /** Seconds after which a process ends that nobody asks. */
  private static long idleLimit() {
    return Long.getLong("pyspark.pravega.catalog-idle-s", 600);
  }

  private static void endIdleOnes() {
    while (true) {
      try {
        Thread.sleep(Math.min(MOST_IDLE_LOOK.toMillis(), Math.max(100, idleLimit() * 100)));
      } catch (InterruptedException error) {
        return;
      }
      PROCESSES.values().forEach(CatalogProcess::endIfIdle);
    }
  }

  private synchronized void endIfIdle() {
    boolean busy = current == null || !current.waiting.isEmpty() || !residents.isEmpty() || this == latest;
    if (!busy && System.nanoTime() - asked > TimeUnit.SECONDS.toNanos(idleLimit())) {
      current.end();
      current = null;
    }
  }

  private synchronized void died(Incarnation incarnation) {
    if (incarnation == current && !residents.isEmpty()) {
      incarnation();
    }
  }

  private synchronized void stop() {
    residents.clear();
    if (current != null) {
      current.process.destroy();
    }
  }

  /** The process died while it was asked. */
  static final class Died extends IOException {
    Died(String message) {
      super(message);
    }
  }

  /** One life of the process. */
  private final class Incarnation {
    final Process process;
    final JsonNode greeting;
    volatile boolean dead;
    private final Writer requests;
    private final Map<Long, CompletableFuture<JsonNode>> waiting = new ConcurrentHashMap<>();
    private long lastId;

    Incarnation() {
      try {
        ProcessBuilder builder = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT);
        // numpy's linear algebra, which nobody asks for here, would begin a thread that spins for 0.1 s of CPU.
        builder.environment().putIfAbsent("OPENBLAS_NUM_THREADS", "1");
        // As Spark has it for its Python workers: there they note what they have said once for all.
        builder.environment().put("SPARK_LOCAL_DIRS", BlockFolders.all());
        process = builder.start();
      } catch (IOException error) {
        throw Unchecked.sneak(
            new PravegaException(
                "PRAVEGA_CATALOG_PROCESS_FAILED",
                PravegaException.SYSTEM_ERROR,
                "the catalog process can't be started with "
                    + command.get(0)
                    + ": set spark.pyspark.python or PYSPARK_PYTHON to the Python in which pyspark-pravega is"
                    + " installed ("
                    + error.getMessage()
                    + ")"));
      }
      requests = new OutputStreamWriter(process.getOutputStream(), StandardCharsets.UTF_8);
      CompletableFuture<JsonNode> hello = new CompletableFuture<>();
      waiting.put(0L, hello);
      Thread reader = new Thread(this::read, "pravega-catalog-answers");
      reader.setDaemon(true);
      reader.start();
      write(Map.of("options", configuration.get("options"), "session", configuration.get("session")));
      greeting = await(hello.orTimeout(startLimit(), TimeUnit.SECONDS));
    }

    public JsonNode call(String method, Object parameters) {
      return await(send(method, parameters));
    }

    CompletableFuture<JsonNode> send(String method, Object parameters) {
      CompletableFuture<JsonNode> answer = new CompletableFuture<>();
      long id;
      synchronized (this) {
        id = ++lastId;
      }
      waiting.put(id, answer);
      write(Map.of("id", id, "method", method, "params", parameters));
      if (dead) {
        answer.completeExceptionally(new Died("it has ended"));
      }
      return answer;
    }

    private synchronized void write(Object document) {
      try {
        requests.write(JSON.writeValueAsString(document) + "\n");
        requests.flush();
      } catch (IOException error) {
        // The reader finds the end of the process and tells all who wait.
        process.destroy();
      }
    }

    /** Ends the process: it does so with its input. */
    void end() {
      try {
        requests.close();
      } catch (IOException error) {
        process.destroy();
      }
    }

    private void read() {
      try (BufferedReader answers =
          new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
        Map<Long, StringBuilder> begun = new HashMap<>();
        for (String line; (line = answers.readLine()) != null; ) {
          JsonNode answer = JSON.readTree(line);
          long id = answer.get("id").asLong();
          if (answer.has("piece")) {
            begun.computeIfAbsent(id, any -> new StringBuilder()).append(answer.get("piece").asText());
            if (!answer.get("last").asBoolean()) {
              continue;
            }
            // Who waits for it parses it: others' answers come meanwhile.
            answer = TextNode.valueOf(begun.remove(id).toString());
          }
          CompletableFuture<JsonNode> future = waiting.remove(id);
          if (future != null) {
            future.complete(answer);
          }
        }
      } catch (IOException | RuntimeException error) {
        // Its output is closed, or holds what isn't an answer: nobody may wait for it any longer.
        process.destroyForcibly();
      }
      dead = true;
      String end = exitStatus();
      waiting.values().forEach(future -> future.completeExceptionally(new Died(end)));
      died(this);
    }

    private String exitStatus() {
      try {
        return process.waitFor(5, TimeUnit.SECONDS) ? "exit status " + process.exitValue() : "it closed its output";
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
        return "interrupted";
      }
    }

    private JsonNode await(CompletableFuture<JsonNode> future) {
      JsonNode answer;
      try {
        answer = future.get();
        if (answer.isTextual()) {
          answer = JSON.readTree(answer.asText());
        }
      } catch (IOException error) {
        throw new IllegalStateException("an answer of the catalog process can't be read: " + error.getMessage(), error);
      } catch (ExecutionException error) {
        throw error.getCause() instanceof TimeoutException ? silent() : lost(error.getCause());
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
        // As it is: so Spark knows that a streaming query was stopped, and hasn't failed.
        throw Unchecked.sneak(error);
      }
      if (answer.has("error")) {
        JsonNode error = answer.get("error");
        throw Unchecked.sneak(
            new CatalogError(
                error.get("kind").asText(),
                error.get("condition").asText(),
                error.get("sqlState").asText(),
                error.get("message").asText()));
      }
      return answer.get("result");
    }

    /** Ends a process that doesn't begin: whoever asks for the catalog waits for it, in all sessions. */
    private RuntimeException silent() {
      process.destroyForcibly();
      return Unchecked.sneak(
          new PravegaException(
              "PRAVEGA_CATALOG_PROCESS_FAILED",
              PravegaException.SYSTEM_ERROR,
              "the catalog process has said nothing within "
                  + startLimit()
                  + " s of its start and was ended. The next statement starts another one. Look at what "
                  + command.get(0)
                  + " waits for, for instance with: "
                  + command.get(0)
                  + " -X importtime -c 'import pyspark_pravega.catalog.process.service'"));
    }

    private RuntimeException lost(Throwable cause) {
      return new IllegalStateException(
          "[PRAVEGA_CATALOG_PROCESS_FAILED] the catalog process ended while it was asked ("
              + cause.getMessage()
              + "); the next statement starts it again. If it ends again, look at its messages on standard error, and"
              + " check that pyspark-pravega is installed in "
              + command.get(0),
          cause);
    }
  }
}
