package pyspark.pravega.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import pyspark.pravega.bridge.CatalogProcess;
import pyspark.pravega.bridge.Names;
import pyspark.pravega.bridge.SessionTransaction;
import pyspark.pravega.bridge.Unchecked;
import scala.Option;

/** A procedure of the catalog process; its parameters and its result are what that says. */
public final class PravegaProcedure implements UnboundProcedure, BoundProcedure {
  private static final Pattern NAME = Pattern.compile("`[^`]*`|[^.`]+");

  /** The columns of what begins or ends a transaction. */
  private static final String ENDED = "transaction STRING, state STRING";

  private final CatalogProcess process;
  private final String catalog;
  private final SessionTransaction transaction;
  private final JsonNode described;

  public PravegaProcedure(CatalogProcess process, String catalog, SessionTransaction transaction, JsonNode described) {
    this.process = process;
    this.catalog = catalog;
    this.transaction = transaction;
    this.described = described;
  }

  @Override
  public String name() {
    return described.get("name").asText();
  }

  @Override
  public String description() {
    return described.get("description").asText();
  }

  @Override
  public BoundProcedure bind(StructType arguments) {
    return this;
  }

  @Override
  public ProcedureParameter[] parameters() {
    List<ProcedureParameter> parameters = new ArrayList<>();
    for (JsonNode parameter : described.get("parameters")) {
      ProcedureParameter.Builder builder =
          ProcedureParameter.in(parameter.get("name").asText(), type(parameter))
              .comment(parameter.get("comment").asText());
      if (!parameter.get("default").isNull()) {
        builder.defaultValue(parameter.get("default").asText());
      }
      parameters.add(builder.build());
    }
    return parameters.toArray(new ProcedureParameter[0]);
  }

  @Override
  public boolean isDeterministic() {
    return false;
  }

  @Override
  public Iterator<Scan> call(InternalRow arguments) {
    JsonNode parameters = described.get("parameters");
    Object[] values = new Object[parameters.size()];
    for (int i = 0; i < values.length; i++) {
      Object value = arguments.isNullAt(i) ? null : arguments.get(i, type(parameters.get(i)));
      values[i] = value instanceof UTF8String text ? text.toString() : value;
      if (value instanceof ArrayData texts) {
        values[i] = Arrays.stream(texts.<Object>toObjectArray(DataTypes.StringType)).map(String::valueOf).toList();
      }
      if (value != null && parameters.get(i).get("columns").asBoolean()) {
        values[i] = StructType.fromDDL(value.toString()).json();
      }
      if (value != null && parameters.get(i).get("condition").asBoolean()) {
        // Alone it must be an expression, so that it is one within a statement, too.
        parsed(() -> parser().parseExpression(value.toString()));
      }
    }
    SessionTransaction.Ended ended = transact(values);
    if (ended != null) {
      JsonNode row = JsonNodeFactory.instance.arrayNode().add(ended.id()).add(ended.state());
      return answer(ENDED, JsonNodeFactory.instance.arrayNode().add(row));
    }
    transaction.refuse("CALL system." + name());
    JsonNode result = step(values, null, null);
    while (result.has("statement")) {
      JsonNode statement = result.get("statement");
      String text = statement.get("text").asText();
      List<String> rows = null;
      switch (statement.get("kind").asText()) {
        case "run" -> session().sql(text);
        case "fetch" -> rows = session().sql(text).toJSON().collectAsList();
        case "read" -> rows = read(text, statement.get("table"));
        default -> {
          LogicalPlan plan = parsed(() -> parser().parsePlan(text));
          session().sessionState().executePlan(plan, CommandExecutionMode.SKIP()).assertAnalyzed();
        }
      }
      result = step(values, statement.get("after"), rows);
    }
    refresh(values);
    return answer(result.get("columns").asText(), result.get("rows"));
  }

  /** Reads what no name stands for: a part of a table, as the catalog process describes it. */
  private List<String> read(String name, JsonNode described) {
    Identifier identifier = Identifier.of(new String[] {parts(name).get(0)}, parts(name).get(1));
    PravegaTable table = new PravegaTable(process, catalog, transaction, identifier, described);
    LogicalPlan relation = DataSourceV2Relation.create(table, Option.empty(), Option.empty());
    return Dataset.ofRows(session(), relation).toJSON().collectAsList();
  }

  private static Iterator<Scan> answer(String columns, JsonNode rows) {
    return List.<Scan>of(new Rows(StructType.fromDDL(columns), rows)).iterator();
  }

  /** Begins or ends the session's transaction; null of a procedure that does neither. */
  private SessionTransaction.Ended transact(Object[] values) {
    switch (name()) {
      case "begin" -> {
        return new SessionTransaction.Ended(transaction.begin((String) values[0], (Long) values[1]), "OPEN", List.of());
      }
      case "rollback" -> {
        return transaction.rollBack();
      }
      case "commit" -> {
        if (values[0] != null || values[1] != null) {
          // One of Pravega's, by its id.
          return null;
        }
        SessionTransaction.Ended ended = transaction.commit();
        if (!session().sharedState().cacheManager().isEmpty()) {
          ended.tables().forEach(name -> refresh(Names.quoted(catalog) + "." + name));
        }
        return ended;
      }
      default -> {
        return null;
      }
    }
  }

  /** What is kept of the table that it was about is read anew, as behind an INSERT. */
  private void refresh(Object[] values) {
    if (session().sharedState().cacheManager().isEmpty()) {
      return;
    }
    for (int i = 0; i < values.length; i++) {
      if (described.get("parameters").get(i).get("name").asText().equals("table") && values[i] != null) {
        List<String> parts = parts(values[i].toString());
        while (parts.size() > 2) {
          parts.remove(0);
        }
        parts.add(0, catalog);
        refresh(parts.stream().map(Names::quoted).collect(Collectors.joining(".")));
      }
    }
  }

  private static void refresh(String table) {
    if (session().catalog().tableExists(table)) {
      session().catalog().refreshTable(table);
    }
  }

  /** The parts of a table's name as procedures take it, which may be spelled as Pravega does, with dashes. */
  private static List<String> parts(String text) {
    return NAME.matcher(text).results().map(part -> part.group().replace("`", "")).collect(Collectors.toList());
  }

  private JsonNode step(Object[] values, JsonNode after, List<String> rows) {
    return process.call(
        "callProcedure", "name", name(), "arguments", values, "catalog", catalog, "after", after, "rows", rows);
  }

  private static ParserInterface parser() {
    return session().sessionState().sqlParser();
  }

  private static <T> T parsed(Callable<T> parsing) {
    try {
      return parsing.call();
    } catch (Exception error) {
      // As it is: Spark's own, with the place in the text.
      throw Unchecked.sneak(error);
    }
  }

  private static SparkSession session() {
    return SparkSession.active();
  }

  private static DataType type(JsonNode parameter) {
    return DataType.fromDDL(parameter.get("type").asText());
  }
}
