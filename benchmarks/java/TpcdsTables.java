import io.trino.tpcds.Results;
import io.trino.tpcds.Session;
import io.trino.tpcds.Table;
import io.trino.tpcds.column.Column;
import io.trino.tpcds.column.ColumnType;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/**
 * Writes tables of TPC-DS, each as a file of lines whose fields end with a bar, and prints each table's columns: a
 * folder, a scale factor, the tables' names.
 */
public final class TpcdsTables {
  private TpcdsTables() {}

  public static void main(String[] arguments) throws IOException {
    Session session = Session.getDefaultSession().withScale(Double.parseDouble(arguments[1]));
    for (String name : Arrays.asList(arguments).subList(2, arguments.length)) {
      Table table = Table.getTable(name);
      System.out.println(
          name + "|" + Arrays.stream(table.getColumns()).map(TpcdsTables::column).collect(Collectors.joining(", ")));
      try (BufferedWriter file = Files.newBufferedWriter(Path.of(arguments[0], name + ".tbl"))) {
        for (List<List<String>> rows : Results.constructResults(table, session.withTable(table))) {
          for (String field : rows.get(0)) {
            file.write(field == null ? "" : field);
            file.write('|');
          }
          file.newLine();
        }
      }
    }
  }

  /** A column as SQL declares it. */
  private static String column(Column column) {
    ColumnType type = column.getType();
    String declared =
        switch (type.getBase()) {
          case IDENTIFIER -> "BIGINT";
          case INTEGER -> "INT";
          case DATE -> "DATE";
          case TIME -> "TIME";
          case DECIMAL -> "DECIMAL(" + type.getPrecision().get() + "," + type.getScale().get() + ")";
          case CHAR, VARCHAR -> type.getBase() + "(" + type.getPrecision().get() + ")";
        };
    return column.getName() + " " + declared;
  }
}
