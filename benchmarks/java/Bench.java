package bench;

import io.pravega.client.BatchClientFactory;
import io.pravega.client.ClientConfig;
import io.pravega.client.EventStreamClientFactory;
import io.pravega.client.batch.SegmentIterator;
import io.pravega.client.batch.SegmentRange;
import io.pravega.client.stream.EventStreamWriter;
import io.pravega.client.stream.EventWriterConfig;
import io.pravega.client.stream.Serializer;
import io.pravega.client.stream.Stream;
import io.pravega.client.stream.StreamCut;
import io.pravega.client.stream.Transaction;
import io.pravega.client.stream.TransactionalEventStreamWriter;
import io.pravega.client.stream.impl.ByteBufferSerializer;
import io.pravega.schemaregistry.client.SchemaRegistryClientConfig;
import io.pravega.schemaregistry.serializer.avro.schemas.AvroSchema;
import io.pravega.schemaregistry.serializer.shared.impl.SerializerConfig;
import io.pravega.schemaregistry.serializers.SerializerFactory;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;

/**
 * Writes and reads with the official client, as told line by line: `write | write-transaction | read-avro | read-raw`,
 * stream, number of events. Answers each line with the number of events that it wrote or read.
 *
 * Arguments: scope, file with the Avro schema, file with the rows that are written over and over (tab-separated).
 */
public final class Bench {
    private static final int THREADS = 2;
    private static final int KEY_COLUMN = 1;

    private final String scope;
    private final Schema schema;
    private final ClientConfig client = ClientConfig.builder().controllerURI(URI.create(System.getProperty("controller"))).build();
    private final EventStreamClientFactory factory;
    private final List<GenericRecord> rows = new ArrayList<>();
    private final List<String> keys = new ArrayList<>();
    private final ExecutorService threads = Executors.newFixedThreadPool(THREADS);

    private Bench(String scope, Path schemaFile, Path rowFile) throws Exception {
        this.scope = scope;
        this.schema = new Schema.Parser().parse(Files.readString(schemaFile));
        this.factory = EventStreamClientFactory.withScope(scope, client);
        for (String line : Files.readAllLines(rowFile)) {
            String[] cells = line.split("\t", -1);
            keys.add(cells[KEY_COLUMN]);
            rows.add(row(cells));
        }
    }

    public static void main(String[] a) throws Exception {
        Bench bench = new Bench(a[0], Path.of(a[1]), Path.of(a[2]));
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            System.out.println(bench.run(words[0], words[1], Integer.parseInt(words[2])));
        }
        System.exit(0);
    }

    private long run(String what, String stream, int events) throws Exception {
        switch (what) {
            case "write":
                return write(stream, events);
            case "write-transaction":
                return writeTransaction(stream, events);
            case "read-avro":
                return read(stream, () -> SerializerFactory.avroGenericDeserializer(serde(stream), null));
            case "read-raw":
                return read(stream, ByteBufferSerializer::new);
            default:
                throw new IllegalArgumentException(what);
        }
    }

    private long write(String stream, int events) {
        try (EventStreamWriter<GenericRecord> writer = factory.createEventWriter(
                stream, serializer(stream), EventWriterConfig.builder().build())) {
            for (int i = 0; i < events; i++) {
                writer.writeEvent(keys.get(i % rows.size()), rows.get(i % rows.size()));
            }
            writer.flush();
        }
        return events;
    }

    private long writeTransaction(String stream, int events) throws Exception {
        EventWriterConfig config = EventWriterConfig.builder().transactionTimeoutTime(600_000).build();
        try (TransactionalEventStreamWriter<GenericRecord> writer =
                factory.createTransactionalEventWriter(stream, serializer(stream), config)) {
            Transaction<GenericRecord> transaction = writer.beginTxn();
            for (int i = 0; i < events; i++) {
                transaction.writeEvent(keys.get(i % rows.size()), rows.get(i % rows.size()));
            }
            transaction.commit();
            while (transaction.checkStatus() != Transaction.Status.COMMITTED) {
                Thread.sleep(5);
            }
        }
        return events;
    }

    private <T> long read(String stream, Supplier<Serializer<T>> deserializer) throws Exception {
        try (BatchClientFactory batch = BatchClientFactory.withScope(scope, client)) {
            List<Future<Long>> counts = new ArrayList<>();
            batch.getSegments(Stream.of(scope, stream), StreamCut.UNBOUNDED, StreamCut.UNBOUNDED).getIterator()
                    .forEachRemaining(range -> counts.add(threads.submit(() -> count(batch, range, deserializer.get()))));
            long total = 0;
            for (Future<Long> count : counts) {
                total += count.get();
            }
            return total;
        }
    }

    private static <T> long count(BatchClientFactory batch, SegmentRange range, Serializer<T> deserializer) {
        long count = 0;
        try (SegmentIterator<T> events = batch.readSegment(range, deserializer)) {
            while (events.hasNext()) {
                if (events.next() != null) {
                    count++;
                }
            }
        }
        return count;
    }

    private SerializerConfig serde(String stream) {
        SchemaRegistryClientConfig registry = SchemaRegistryClientConfig.builder()
                .schemaRegistryUri(URI.create(System.getProperty("registry"))).build();
        return SerializerConfig.builder().registryConfig(registry).namespace(scope).groupId(stream).build();
    }

    private Serializer<GenericRecord> serializer(String stream) {
        return SerializerFactory.avroSerializer(serde(stream), AvroSchema.ofRecord(schemaOf(stream)));
    }

    /** The schema that is registered for a stream: the record has the stream's name. */
    private Schema schemaOf(String stream) {
        List<Schema.Field> fields = new ArrayList<>();
        for (Schema.Field field : schema.getFields()) {
            fields.add(new Schema.Field(field, field.schema()));
        }
        return Schema.createRecord(stream, schema.getDoc(), schema.getNamespace(), false, fields);
    }

    private GenericRecord row(String[] cells) {
        GenericRecord record = new GenericData.Record(schema);
        for (Schema.Field field : schema.getFields()) {
            String cell = cells[field.pos()];
            Schema type = field.schema().isUnion() ? field.schema().getTypes().get(1) : field.schema();
            switch (type.getType()) {
                case LONG:
                    record.put(field.pos(), Long.valueOf(cell));
                    break;
                case INT:
                    record.put(field.pos(), Integer.valueOf(cell));
                    break;
                case DOUBLE:
                    record.put(field.pos(), Double.valueOf(cell));
                    break;
                default:
                    record.put(field.pos(), cell);
            }
        }
        return record;
    }
}
