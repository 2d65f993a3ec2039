package pyspark.pravega;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Passwords and tokens of catalogs, put here by the driver's Python. Spark's configuration is no place for them: one that
 * is given when the JVM is started is on its command line, and one that is set later is in the event log.
 */
public final class Secrets {
  private static final Map<String, Map<String, String>> SECRETS = new ConcurrentHashMap<>();

  private Secrets() {}

  /**
   * Keeps a catalog's secret for catalogs of that name that are initialized from now on.
   *
   * @param catalog the catalog's name
   * @param key the option's key
   * @param value the secret
   */
  public static void put(String catalog, String key, String value) {
    SECRETS.computeIfAbsent(catalog, name -> new ConcurrentHashMap<>()).put(key, value);
  }

  /** Forgets a catalog's secrets. */
  public static void clear(String catalog) {
    SECRETS.remove(catalog);
  }

  /** A catalog's options with its secrets; what is among the options already stays. */
  static Map<String, String> with(String catalog, Map<String, String> options) {
    Map<String, String> all = new TreeMap<>(SECRETS.getOrDefault(catalog, Map.of()));
    all.putAll(options);
    return all;
  }
}
