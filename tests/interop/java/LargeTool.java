package interop;

import io.pravega.client.ClientConfig;
import io.pravega.client.EventStreamClientFactory;
import io.pravega.client.admin.ReaderGroupManager;
import io.pravega.client.stream.EventRead;
import io.pravega.client.stream.EventStreamReader;
import io.pravega.client.stream.EventStreamWriter;
import io.pravega.client.stream.EventWriterConfig;
import io.pravega.client.stream.ReaderConfig;
import io.pravega.client.stream.ReaderGroupConfig;
import io.pravega.client.stream.impl.ByteArraySerializer;
import java.net.URI;
import java.util.Random;
import java.util.UUID;
import java.util.zip.CRC32;

/**
 * Large events with the official client: write SCOPE STREAM SIZE... writes random events of these sizes, read SCOPE STREAM
 * COUNT reads so many; both print an event a line, as its size and CRC-32.
 */
public final class LargeTool {
    public static void main(String[] a) throws Exception {
        ClientConfig client = ClientConfig.builder().controllerURI(URI.create(System.getProperty("controller"))).build();
        try (EventStreamClientFactory factory = EventStreamClientFactory.withScope(a[1], client)) {
            if (a[0].equals("write")) {
                EventWriterConfig config = EventWriterConfig.builder().enableLargeEvents(true).build();
                try (EventStreamWriter<byte[]> writer = factory.createEventWriter(a[2], new ByteArraySerializer(), config)) {
                    for (int i = 3; i < a.length; i++) {
                        byte[] event = new byte[Integer.parseInt(a[i])];
                        new Random(i).nextBytes(event);
                        writer.writeEvent("key", event).join();
                        print(event);
                    }
                }
            } else {
                String group = "rg" + UUID.randomUUID().toString().replace("-", "");
                try (ReaderGroupManager manager = ReaderGroupManager.withScope(a[1], client)) {
                    manager.createReaderGroup(group, ReaderGroupConfig.builder().stream(a[1] + "/" + a[2]).build());
                    try (EventStreamReader<byte[]> reader = factory.createReader(
                            "r", group, new ByteArraySerializer(), ReaderConfig.builder().build())) {
                        for (int n = 0; n < Integer.parseInt(a[3]); ) {
                            EventRead<byte[]> read = reader.readNextEvent(20_000);
                            if (read.getEvent() != null) {
                                print(read.getEvent());
                                n++;
                            } else if (!read.isCheckpoint()) {
                                break;
                            }
                        }
                    }
                    manager.deleteReaderGroup(group);
                }
            }
        }
    }

    private static void print(byte[] event) {
        CRC32 crc = new CRC32();
        crc.update(event);
        System.out.println(event.length + " " + crc.getValue());
    }
}
