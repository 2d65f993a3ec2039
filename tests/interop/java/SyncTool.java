package interop;

import io.pravega.client.ClientConfig;
import io.pravega.client.SynchronizerClientFactory;
import io.pravega.client.state.InitialUpdate;
import io.pravega.client.state.Revision;
import io.pravega.client.state.Revisioned;
import io.pravega.client.state.RevisionedStreamClient;
import io.pravega.client.state.StateSynchronizer;
import io.pravega.client.state.SynchronizerConfig;
import io.pravega.client.state.Update;
import io.pravega.client.stream.Serializer;
import io.pravega.client.stream.impl.ByteArraySerializer;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.List;
import java.util.Map.Entry;

/**
 * Revisioned streams and a shared counter with the official client: MODE SCOPE STREAM [NUMBER].
 *
 * append: NUMBER entries "java i", each conditionally at the newest revision; read: prints the entries as "offset text";
 * mark: sets the mark to the newest revision and prints the old and new one; count: adds 1 to the counter NUMBER times and
 * prints it; compact: compacts it.
 */
public final class SyncTool {
    /** A counter: as its state, and as what is added to it, a decimal number. */
    private record Count(String stream, Revision revision, long value) implements Revisioned {
        @Override
        public String getScopedStreamName() {
            return stream;
        }

        @Override
        public Revision getRevision() {
            return revision;
        }
    }

    private record Add(long value) implements Update<Count> {
        @Override
        public Count applyTo(Count old, Revision revision) {
            return new Count(old.stream(), revision, old.value() + value);
        }
    }

    private record Begin(long value) implements InitialUpdate<Count> {
        @Override
        public Count create(String stream, Revision revision) {
            return new Count(stream, revision, value);
        }
    }

    private static ByteBuffer text(long value) {
        return ByteBuffer.wrap(Long.toString(value).getBytes(StandardCharsets.US_ASCII));
    }

    private static long number(ByteBuffer text) {
        return Long.parseLong(StandardCharsets.US_ASCII.decode(text).toString());
    }

    private static final class AddSerializer implements Serializer<Add> {
        @Override
        public ByteBuffer serialize(Add value) {
            return text(value.value());
        }

        @Override
        public Add deserialize(ByteBuffer text) {
            return new Add(number(text));
        }
    }

    private static final class BeginSerializer implements Serializer<Begin> {
        @Override
        public ByteBuffer serialize(Begin value) {
            return text(value.value());
        }

        @Override
        public Begin deserialize(ByteBuffer text) {
            return new Begin(number(text));
        }
    }

    public static void main(String[] a) {
        ClientConfig client = ClientConfig.builder().controllerURI(URI.create(System.getProperty("controller"))).build();
        int number = a.length > 3 ? Integer.parseInt(a[3]) : 0;
        SynchronizerConfig config = SynchronizerConfig.builder().build();
        try (SynchronizerClientFactory factory = SynchronizerClientFactory.withScope(a[1], client)) {
            if (a[0].equals("count") || a[0].equals("compact")) {
                try (StateSynchronizer<Count> counter = factory.createStateSynchronizer(
                        a[2], new AddSerializer(), new BeginSerializer(), config)) {
                    counter.initialize(new Begin(0));
                    counter.fetchUpdates();
                    for (int i = 0; i < number; i++) {
                        counter.updateState((state, updates) -> { updates.add(new Add(1)); });
                    }
                    if (a[0].equals("compact")) {
                        counter.compact(state -> new Begin(state.value()));
                    }
                    System.out.println(counter.getState().value());
                }
            } else {
                try (RevisionedStreamClient<byte[]> log = factory.createRevisionedStreamClient(
                        a[2], new ByteArraySerializer(), config)) {
                    run(a[0], log, number);
                }
            }
        }
    }

    private static void run(String mode, RevisionedStreamClient<byte[]> log, int number) {
        if (mode.equals("append")) {
            for (int i = 0; i < number; i++) {
                byte[] entry = ("java " + i).getBytes(StandardCharsets.US_ASCII);
                if (i % 10 == 9) {
                    log.writeUnconditionally(entry);
                } else if (log.writeConditionally(log.fetchLatestRevision(), entry) == null) {
                    i--;
                }
            }
        } else if (mode.equals("mark")) {
            Revision old = log.getMark();
            Revision latest = log.fetchLatestRevision();
            log.compareAndSetMark(old, latest);
            System.out.println(old + " " + latest);
        } else {
            Iterator<Entry<Revision, byte[]>> entries = log.readFrom(log.fetchOldestRevision());
            while (entries.hasNext()) {
                Entry<Revision, byte[]> entry = entries.next();
                System.out.println(List.of(entry.getKey().toString().split(":")).get(1) + " " + new String(entry.getValue(), StandardCharsets.ISO_8859_1));
            }
        }
    }
}
