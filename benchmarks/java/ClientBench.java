package bench;

import io.pravega.client.BatchClientFactory;
import io.pravega.client.ClientConfig;
import io.pravega.client.EventStreamClientFactory;
import io.pravega.client.batch.SegmentIterator;
import io.pravega.client.batch.SegmentRange;
import io.pravega.client.stream.EventStreamWriter;
import io.pravega.client.stream.EventWriterConfig;
import io.pravega.client.stream.Stream;
import io.pravega.client.stream.StreamCut;
import io.pravega.client.stream.Transaction;
import io.pravega.client.stream.TransactionalEventStreamWriter;
import io.pravega.client.stream.impl.ByteBufferSerializer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * Writes and reads plain bytes with the official client, as told line by line: `write | write-transaction | read`, stream,
 * number of events. Answers each line with the number of events that it wrote or read.
 *
 * Arguments: scope, file with what is written over and over: routing key, tab, base64 of the event.
 */
public final class ClientBench {
    private static final int THREADS = 2;

    private final String scope;
    private final ClientConfig client = ClientConfig.builder().controllerURI(URI.create(System.getProperty("controller"))).build();
    private final EventStreamClientFactory factory;
    private final List<ByteBuffer> events = new ArrayList<>();
    private final List<String> keys = new ArrayList<>();
    private final ExecutorService threads = Executors.newFixedThreadPool(THREADS);

    private ClientBench(String scope, Path file) throws Exception {
        this.scope = scope;
        this.factory = EventStreamClientFactory.withScope(scope, client);
        for (String line : Files.readAllLines(file)) {
            String[] cells = line.split("\t", -1);
            keys.add(cells[0]);
            events.add(ByteBuffer.wrap(Base64.getDecoder().decode(cells[1])));
        }
    }

    public static void main(String[] a) throws Exception {
        ClientBench bench = new ClientBench(a[0], Path.of(a[1]));
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            System.out.println(bench.run(words[0], words[1], Integer.parseInt(words[2])));
        }
        System.exit(0);
    }

    private long run(String what, String stream, int count) throws Exception {
        switch (what) {
            case "write":
                return write(stream, count);
            case "write-transaction":
                return writeTransaction(stream, count);
            case "read":
                return read(stream);
            default:
                throw new IllegalArgumentException(what);
        }
    }

    private long write(String stream, int count) {
        try (EventStreamWriter<ByteBuffer> writer =
                factory.createEventWriter(stream, new ByteBufferSerializer(), EventWriterConfig.builder().build())) {
            for (int i = 0; i < count; i++) {
                writer.writeEvent(keys.get(i % events.size()), events.get(i % events.size()).duplicate());
            }
            writer.flush();
        }
        return count;
    }

    private long writeTransaction(String stream, int count) throws Exception {
        EventWriterConfig config = EventWriterConfig.builder().transactionTimeoutTime(600_000).build();
        try (TransactionalEventStreamWriter<ByteBuffer> writer =
                factory.createTransactionalEventWriter(stream, new ByteBufferSerializer(), config)) {
            Transaction<ByteBuffer> transaction = writer.beginTxn();
            for (int i = 0; i < count; i++) {
                transaction.writeEvent(keys.get(i % events.size()), events.get(i % events.size()).duplicate());
            }
            transaction.commit();
            while (transaction.checkStatus() != Transaction.Status.COMMITTED) {
                Thread.sleep(5);
            }
        }
        return count;
    }

    private long read(String stream) throws Exception {
        try (BatchClientFactory batch = BatchClientFactory.withScope(scope, client)) {
            List<Future<Long>> counts = new ArrayList<>();
            batch.getSegments(Stream.of(scope, stream), StreamCut.UNBOUNDED, StreamCut.UNBOUNDED).getIterator()
                    .forEachRemaining(range -> counts.add(threads.submit(() -> count(batch, range))));
            long total = 0;
            for (Future<Long> count : counts) {
                total += count.get();
            }
            return total;
        }
    }

    private static long count(BatchClientFactory batch, SegmentRange range) {
        long count = 0;
        try (SegmentIterator<ByteBuffer> events = batch.readSegment(range, new ByteBufferSerializer())) {
            while (events.hasNext()) {
                if (events.next() != null) {
                    count++;
                }
            }
        }
        return count;
    }
}
