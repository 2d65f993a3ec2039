package pyspark.pravega;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.constraints.PrimaryKey;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;

/** ALTER's changes and CREATE's clauses as the catalog process reads them. */
final class Changes {
  private Changes() {}

  static List<Map<String, Object>> of(TableChange... changes) {
    return Arrays.stream(changes).map(Changes::describe).toList();
  }

  static List<Map<String, Object>> of(NamespaceChange... changes) {
    List<Map<String, Object>> described = new ArrayList<>();
    for (NamespaceChange change : changes) {
      if (change instanceof NamespaceChange.SetProperty set) {
        described.add(Map.of("kind", "SetProperty", "property", set.property(), "value", set.value()));
      } else if (change instanceof NamespaceChange.RemoveProperty remove) {
        described.add(Map.of("kind", "RemoveProperty", "property", remove.property()));
      }
    }
    return described;
  }

  static List<Map<String, Object>> of(Transform... transforms) {
    List<Map<String, Object>> described = new ArrayList<>();
    for (Transform transform : transforms) {
      Map<String, Object> description = new HashMap<>();
      description.put("name", transform.name());
      description.put(
          "columns",
          Arrays.stream(transform.references()).map(NamedReference::fieldNames).map(p -> String.join(".", p)).toList());
      Arrays.stream(transform.arguments())
          .filter(Literal.class::isInstance)
          .findFirst()
          .ifPresent(argument -> description.put("buckets", ((Literal<?>) argument).value()));
      described.add(description);
    }
    return described;
  }

  private static Map<String, Object> describe(TableChange change) {
    Map<String, Object> described = new HashMap<>();
    described.put("kind", change.getClass().getSimpleName());
    if (change instanceof TableChange.ColumnChange column) {
      described.put("column", column.fieldNames());
    }
    if (change instanceof TableChange.SetProperty set) {
      described.put("property", set.property());
      described.put("value", set.value());
    } else if (change instanceof TableChange.RemoveProperty remove) {
      described.put("property", remove.property());
    } else if (change instanceof TableChange.AddColumn add) {
      described.put("type", add.dataType().json());
      described.put("nullable", add.isNullable());
      described.put("comment", add.comment());
      described.put("position", position(add.position()));
      described.put("default", add.defaultValue() == null ? null : add.defaultValue().getSql());
    } else if (change instanceof TableChange.UpdateColumnType type) {
      described.put("type", type.newDataType().json());
    } else if (change instanceof TableChange.UpdateColumnNullability nullability) {
      described.put("nullable", nullability.nullable());
    } else if (change instanceof TableChange.UpdateColumnComment comment) {
      described.put("comment", comment.newComment());
    } else if (change instanceof TableChange.UpdateColumnPosition moved) {
      described.put("position", position(moved.position()));
    } else if (change instanceof TableChange.DeleteColumn delete) {
      described.put("if_exists", delete.ifExists());
    } else if (change instanceof TableChange.UpdateColumnDefaultValue value) {
      described.put("default", value.newCurrentDefault() == null ? null : value.newCurrentDefault().getSql());
    } else if (change instanceof TableChange.AddConstraint add && add.constraint() instanceof PrimaryKey key) {
      described.put("kind", "SetProperty");
      described.put("property", Constraints.PRIMARY_KEY);
      described.put("value", Constraints.columns(key));
    } else if (change instanceof TableChange.AddConstraint add) {
      described.putAll(Constraints.describe(add.constraint()));
    } else if (change instanceof TableChange.DropConstraint drop) {
      described.put("name", drop.name());
      described.put("if_exists", drop.ifExists());
    } else if (change instanceof TableChange.ClusterBy cluster) {
      described.put(
          "columns",
          Arrays.stream(cluster.clusteringColumns()).map(c -> String.join(".", c.fieldNames())).toList());
    }
    return described;
  }

  /** Where a column goes: nothing for the end, FIRST, or AFTER and a column. */
  private static List<String> position(TableChange.ColumnPosition position) {
    if (position instanceof TableChange.After after) {
      return List.of("AFTER", after.column());
    }
    return position == null ? null : List.of("FIRST");
  }
}
