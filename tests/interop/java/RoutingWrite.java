package interop;

import io.pravega.client.ClientConfig;
import io.pravega.client.EventStreamClientFactory;
import io.pravega.client.stream.EventStreamWriter;
import io.pravega.client.stream.EventWriterConfig;
import io.pravega.client.stream.impl.ByteArraySerializer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/** Writes an event to scope/stream for each line of its input: the line is a key in base64, the event the key itself. */
public final class RoutingWrite {
    public static void main(String[] a) throws Exception {
        ClientConfig client = ClientConfig.builder().controllerURI(URI.create(System.getProperty("controller"))).build();
        try (EventStreamClientFactory factory = EventStreamClientFactory.withScope(a[0], client);
             EventStreamWriter<byte[]> writer = factory.createEventWriter(
                     a[1], new ByteArraySerializer(), EventWriterConfig.builder().build());
             BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                byte[] key = Base64.getDecoder().decode(line);
                writer.writeEvent(new String(key, StandardCharsets.UTF_8), key);
            }
            writer.flush();
        }
    }
}
