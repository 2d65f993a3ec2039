package pyspark.pravega.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.util.RowDeltaUtils;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.constraints.Check;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.catalog.constraints.PrimaryKey;
import pyspark.pravega.PravegaException;
import pyspark.pravega.bridge.Names;
import pyspark.pravega.bridge.Unchecked;
import pyspark.pravega.write.PravegaChanges;

/** Constraints between Spark and the catalog process: Spark holds rows against CHECK, a primary key is a property. */
public final class Constraints {
  private Constraints() {}

  private static final Pattern NAME = Pattern.compile("\\s*(?:`((?:[^`]|``)+)`\\s*|([^,]*)),");

  /** The property that names the columns of a primary key. */
  static final String PRIMARY_KEY = "primary-key";

  /** A table's constraints; its primary key is one that nobody enforces, because a second row replaces the first. */
  static Constraint[] of(JsonNode checks, List<String> primaryKey, String table) {
    List<Constraint> constraints = new ArrayList<>();
    if (!primaryKey.isEmpty()) {
      constraints.add(
          Constraint.primaryKey(table + "_pk", Names.references(primaryKey))
              .enforced(false)
              .validationStatus(Constraint.ValidationStatus.UNVALIDATED)
              .build());
    }
    for (JsonNode check : checks) {
      constraints.add(
          Constraint.check(check.get("name").asText())
              .predicateSql(check.get("condition").asText())
              .enforced(check.get("enforced").asBoolean())
              .validationStatus(Constraint.ValidationStatus.VALID)
              .build());
    }
    return constraints.toArray(new Constraint[0]);
  }

  /**
   * The same for a statement that changes rows: Spark holds all that such a statement writes against them, also what
   * stands for a row that is deleted, of which it knows the key only and has NULL for all else.
   */
  static Constraint[] ofChanges(Constraint[] constraints) {
    return Arrays.stream(constraints).map(one -> one instanceof Check check ? ofChanges(check) : one).toArray(Constraint[]::new);
  }

  private static Check ofChanges(Check check) {
    String condition = PravegaChanges.SPARKS_OPERATION + " = " + RowDeltaUtils.DELETE_OPERATION();
    return Constraint.check(check.name())
        .predicateSql(condition + " OR (" + check.predicateSql() + "\n)")
        .enforced(check.enforced())
        .validationStatus(check.validationStatus())
        .build();
  }

  /** The names of those that rows are held against. */
  static List<String> enforced(Constraint[] constraints) {
    return Arrays.stream(constraints).filter(Constraint::enforced).map(Constraint::name).toList();
  }

  /** The CHECK constraints of a statement. */
  static List<Map<String, Object>> describe(Constraint[] constraints) {
    return Arrays.stream(constraints).filter(one -> !(one instanceof PrimaryKey)).map(Constraints::describe).toList();
  }

  /** A statement's properties, with the primary key that its constraints name. */
  static Map<String, String> withKey(Map<String, String> properties, Constraint[] constraints) {
    Map<String, String> all = new HashMap<>(properties);
    for (Constraint constraint : constraints) {
      if (constraint instanceof PrimaryKey key) {
        String columns = columns(key);
        String given = all.put(PRIMARY_KEY, columns);
        if (given != null && !names(given).equals(names(columns))) {
          throw Unchecked.sneak(
              new PravegaException(
                  "PRAVEGA_INVALID_CONFIGURATION",
                  PravegaException.INVALID_OPTION,
                  "PRIMARY KEY (" + columns + ") contradicts the property \"" + PRIMARY_KEY + "\" = \"" + given + "\""));
        }
      }
    }
    return all;
  }

  /** A primary key's columns, as the property names them. */
  static String columns(PrimaryKey key) {
    return Arrays.stream(key.columns())
        .map(c -> Names.quoted(String.join(".", c.fieldNames())))
        .collect(Collectors.joining(","));
  }

  /** The names in a list as the property has it, some of them in backticks; without their case. */
  private static List<String> names(String text) {
    List<String> names = new ArrayList<>();
    Matcher found = NAME.matcher(text + ",");
    while (found.find()) {
      String name = found.group(1) == null ? found.group(2).strip() : found.group(1).replace("``", "`");
      names.add(name.toLowerCase(Locale.ROOT));
    }
    return names;
  }

  static Map<String, Object> describe(Constraint constraint) {
    if (!(constraint instanceof Check check)) {
      throw Unchecked.sneak(
          new PravegaException(
              "PRAVEGA_UNSUPPORTED_OPERATION",
              PravegaException.UNSUPPORTED,
              constraint.toDDL() + ": of constraints a stream has CHECK and PRIMARY KEY only; leave this one out"));
    }
    Map<String, Object> described = new HashMap<>();
    described.put("name", check.name());
    described.put("condition", check.predicateSql());
    described.put("enforced", check.enforced());
    return described;
  }

  /** Whether ALTER TABLE adds one, against which the rows that are there must be held. */
  public static boolean added(TableChange... changes) {
    return Arrays.stream(changes).anyMatch(TableChange.AddConstraint.class::isInstance);
  }

  /** Says what a change of constraints is, where it is one. */
  static void describe(TableChange change, Map<String, Object> described) {
    if (change instanceof TableChange.AddConstraint add && add.constraint() instanceof PrimaryKey key) {
      described.put("kind", "SetProperty");
      described.put("property", PRIMARY_KEY);
      described.put("value", columns(key));
    } else if (change instanceof TableChange.AddConstraint add) {
      described.put("check", describe(add.constraint()));
    } else if (change instanceof TableChange.DropConstraint drop) {
      described.put("name", drop.name());
      described.put("if_exists", drop.ifExists());
    }
  }
}
