package pyspark.pravega.catalog;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;

/** ALTER's changes and CREATE's clauses as the catalog process reads them (`catalog/ddl.py`). */
public final class Changes {
  private Changes() {}

  public static List<Map<String, Object>> of(TableChange... changes) {
    return Arrays.stream(changes).map(Changes::describe).toList();
  }

  public static List<Map<String, Object>> of(NamespaceChange... changes) {
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

  public static List<Map<String, Object>> of(Transform... transforms) {
    List<Map<String, Object>> described = new ArrayList<>();
    for (Transform transform : transforms) {
      described.add(
          switch (transform.name()) {
            case "bucket" -> Map.of("kind", "Bucket", "columns", columns(transform), "buckets", buckets(transform));
            case "cluster_by" -> Map.of("kind", "ClusterBy", "columns", columns(transform));
            default -> Map.of("kind", "OtherTransform", "name", transform.name());
          });
    }
    return described;
  }

  private static Object buckets(Transform transform) {
    return Arrays.stream(transform.arguments())
        .filter(Literal.class::isInstance)
        .map(argument -> ((Literal<?>) argument).value())
        .findFirst()
        .orElseThrow();
  }

  private static List<String> columns(Transform transform) {
    return columns(transform.references());
  }

  private static List<String> columns(NamedReference[] references) {
    return Arrays.stream(references).map(reference -> String.join(".", reference.fieldNames())).toList();
  }

  @SuppressWarnings("deprecation") // the default value as SQL, which is all that Spark 4.0 tells
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
      String given = value.newDefaultValue();
      described.put("default", given == null || given.isEmpty() ? null : given);
    } else if (change instanceof TableChange.ClusterBy cluster) {
      described.put("columns", columns(cluster.clusteringColumns()));
    } else {
      Constraints.describe(change, described);
    }
    return described;
  }

  /** Where a column goes: nothing for the end, behind another one, or behind none. */
  private static Map<String, Object> position(TableChange.ColumnPosition position) {
    if (position == null) {
      return null;
    }
    return Collections.singletonMap("after", position instanceof TableChange.After after ? after.column() : null);
  }
}
