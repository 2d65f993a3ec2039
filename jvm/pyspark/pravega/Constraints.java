package pyspark.pravega;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.constraints.Check;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;

/** CHECK constraints between Spark and the catalog process; Spark holds rows against them. */
final class Constraints {
  private Constraints() {}

  static Constraint[] of(JsonNode checks) {
    List<Constraint> constraints = new ArrayList<>();
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

  /** The names of those that rows are held against. */
  static List<String> enforced(Constraint[] constraints) {
    return Arrays.stream(constraints).filter(Constraint::enforced).map(Constraint::name).toList();
  }

  static List<Map<String, Object>> describe(Constraint[] constraints) {
    return Arrays.stream(constraints).map(Constraints::describe).toList();
  }

  static Map<String, Object> describe(Constraint constraint) {
    if (!(constraint instanceof Check check)) {
      throw Unchecked.sneak(
          new PravegaException(
              "PRAVEGA_UNSUPPORTED_OPERATION",
              constraint.toDDL() + ": of constraints a stream has CHECK only; leave this one out"));
    }
    Map<String, Object> described = new HashMap<>();
    described.put("name", check.name());
    described.put("condition", check.predicateSql());
    described.put("enforced", check.enforced());
    return described;
  }
}
