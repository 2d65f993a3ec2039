package interop;

import io.pravega.client.ClientConfig;
import io.pravega.client.KeyValueTableFactory;
import io.pravega.client.admin.KeyValueTableManager;
import io.pravega.client.tables.Insert;
import io.pravega.client.tables.KeyValueTable;
import io.pravega.client.tables.KeyValueTableClientConfiguration;
import io.pravega.client.tables.KeyValueTableConfiguration;
import io.pravega.client.tables.Put;
import io.pravega.client.tables.TableEntry;
import io.pravega.client.tables.TableKey;
import io.pravega.client.tables.TableModification;
import io.pravega.client.tables.Version;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * Key-value tables with the official client.
 *
 * create SCOPE TABLE PARTITIONS PRIMARY SECONDARY; write SCOPE TABLE PRIMARY ROWS SECONDARIES inserts, for each int row, one
 * batch of the secondary keys 0, 1, ...; update SCOPE TABLE PRIMARY and get SCOPE TABLE PRIMARY take keys in hex from
 * stdin: update appends "!" to their values under the version read; all SCOPE TABLE prints the entries in their order.
 */
public final class KvtTool {
    public static void main(String[] a) throws Exception {
        ClientConfig client = ClientConfig.builder().controllerURI(URI.create(System.getProperty("controller"))).build();
        if (a[0].equals("create")) {
            try (KeyValueTableManager manager = KeyValueTableManager.create(client)) {
                manager.createKeyValueTable(a[1], a[2], KeyValueTableConfiguration.builder()
                        .partitionCount(Integer.parseInt(a[3])).primaryKeyLength(Integer.parseInt(a[4]))
                        .secondaryKeyLength(Integer.parseInt(a[5])).build());
            }
            return;
        }
        try (KeyValueTableFactory factory = KeyValueTableFactory.withScope(a[1], client);
             KeyValueTable table = factory.forKeyValueTable(a[2], KeyValueTableClientConfiguration.builder().build())) {
            switch (a[0]) {
                case "write":
                    for (int row = 0; row < Integer.parseInt(a[4]); row++) {
                        List<TableModification> batch = new ArrayList<>();
                        for (int i = 0; i < Integer.parseInt(a[5]); i++) {
                            ByteBuffer primary = ByteBuffer.allocate(4).putInt(0, row);
                            ByteBuffer secondary = ByteBuffer.wrap(new byte[]{0, 0, (byte) i});
                            batch.add(new Insert(new TableKey(primary, secondary), ByteBuffer.wrap(("java " + row + "." + i).getBytes())));
                        }
                        table.update(batch).join();
                    }
                    break;
                case "update":
                    for (TableEntry entry : table.getAll(keys(Integer.parseInt(a[3]))).join()) {
                        byte[] value = (string(entry.getValue()) + "!").getBytes("ISO-8859-1");
                        Version version = table.update(new Put(entry.getKey(), ByteBuffer.wrap(value), entry.getVersion())).join();
                        System.out.println(version);
                    }
                    break;
                case "get":
                    table.getAll(keys(Integer.parseInt(a[3]))).join().forEach(KvtTool::print);
                    break;
                default:
                    table.iterator().maxIterationSize(100).all().entries()
                            .forEachRemaining(page -> page.getItems().forEach(KvtTool::print), Runnable::run).join();
            }
        }
    }

    private static List<TableKey> keys(int primary) throws Exception {
        List<TableKey> keys = new ArrayList<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ByteBuffer key = ByteBuffer.wrap(java.util.HexFormat.of().parseHex(line));
            ByteBuffer first = key.slice(0, primary);
            keys.add(new TableKey(first, key.slice(primary, key.remaining() - primary)));
        }
        return keys;
    }

    private static void print(TableEntry entry) {
        System.out.println(entry == null ? "null" : hex(entry.getKey().getPrimaryKey()) + hex(entry.getKey().getSecondaryKey())
                + " " + entry.getVersion() + " " + string(entry.getValue()));
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return java.util.HexFormat.of().formatHex(bytes);
    }

    private static String string(ByteBuffer buffer) {
        return java.nio.charset.StandardCharsets.ISO_8859_1.decode(buffer.duplicate()).toString();
    }
}
