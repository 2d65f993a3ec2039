import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;

/** Asks for JDBC's metadata: a call a line on standard input, its rows on standard output, a line with ; after them. */
public class Metadata {
  public static void main(String[] arguments) throws Exception {
    try (Connection connection = DriverManager.getConnection(arguments[0], "ann", "");
        Scanner calls = new Scanner(System.in, "UTF-8")) {
      while (calls.hasNextLine()) {
        String[] call = calls.nextLine().split("\t", -1);
        long start = System.nanoTime();
        try (ResultSet rows = ask(connection, call)) {
          print(rows);
        } catch (SQLException error) {
          System.out.println("error: " + error.getMessage().lines().findFirst().orElse(""));
        }
        System.out.println(";");
        System.err.printf("%s: %d ms%n", String.join(" ", call), (System.nanoTime() - start) / 1_000_000);
      }
    }
  }

  private static ResultSet ask(Connection connection, String[] call) throws SQLException {
    DatabaseMetaData tree = connection.getMetaData();
    String[] given = new String[5];
    for (int i = 1; i < call.length; i++) {
      given[i - 1] = call[i].equals("null") ? null : call[i];
    }
    return switch (call[0]) {
      case "getCatalogs" -> tree.getCatalogs();
      case "getTableTypes" -> tree.getTableTypes();
      case "getSchemas" -> tree.getSchemas(given[0], given[1]);
      case "getTables" ->
          tree.getTables(given[0], given[1], given[2], given[3] == null ? null : given[3].split(","));
      case "getColumns" -> tree.getColumns(given[0], given[1], given[2], given[3]);
      case "getPrimaryKeys" -> tree.getPrimaryKeys(given[0], given[1], given[2]);
      case "getImportedKeys" -> tree.getImportedKeys(given[0], given[1], given[2]);
      case "getCrossReference" -> tree.getCrossReference(null, given[0], given[1], null, given[2], given[3]);
      default -> connection.createStatement().executeQuery(call[0]);
    };
  }

  /** The values that are there, between spaces. */
  private static void print(ResultSet rows) throws SQLException {
    int columns = rows.getMetaData().getColumnCount();
    while (rows.next()) {
      List<String> row = new ArrayList<>();
      for (int i = 1; i <= columns; i++) {
        String value = rows.getString(i);
        if (value != null && !value.isEmpty()) {
          row.add(value);
        }
      }
      System.out.println(String.join(" ", row));
    }
  }
}
