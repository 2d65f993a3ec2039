import io.trino.tpch.TpchEntity;
import io.trino.tpch.TpchTable;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * Writes tables of TPC-H, each as a file of lines whose fields end with a bar: a folder, a scale factor, the tables'
 * names.
 */
public final class TpchTables {
  private TpchTables() {}

  public static void main(String[] arguments) throws IOException {
    for (String name : Arrays.asList(arguments).subList(2, arguments.length)) {
      TpchTable<?> table = TpchTable.getTable(name);
      try (BufferedWriter file = Files.newBufferedWriter(Path.of(arguments[0], name + ".tbl"))) {
        for (TpchEntity row : table.createGenerator(Double.parseDouble(arguments[1]), 1, 1)) {
          file.write(row.toLine());
          file.newLine();
        }
      }
    }
  }
}
