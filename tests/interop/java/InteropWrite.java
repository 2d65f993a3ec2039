package interop;

import io.pravega.client.ClientConfig;
import io.pravega.client.EventStreamClientFactory;
import io.pravega.client.stream.EventStreamWriter;
import io.pravega.client.stream.EventWriterConfig;
import io.pravega.client.stream.Serializer;
import io.pravega.client.stream.Transaction;
import io.pravega.client.stream.TransactionalEventStreamWriter;
import io.pravega.schemaregistry.client.SchemaRegistryClientConfig;
import io.pravega.schemaregistry.contract.data.Compatibility;
import io.pravega.schemaregistry.contract.data.SerializationFormat;
import io.pravega.schemaregistry.serializer.avro.schemas.AvroSchema;
import io.pravega.schemaregistry.serializer.shared.codec.Codec;
import io.pravega.schemaregistry.serializer.shared.codec.Codecs;
import io.pravega.schemaregistry.serializer.shared.impl.SerializerConfig;
import io.pravega.schemaregistry.serializers.SerializerFactory;
import java.math.BigDecimal;
import java.net.URI;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;

/**
 * Writes events of many Avro types to scope/stream with the official serializer; event i is a pure function of i.
 *
 * Events 0..399 have schema v0 and no compression, 400..599 schema v0 and gzip, 600..799 schema v1 and Snappy, 800..999
 * schema v1 in one transaction. Arguments: scope, stream, schema v0, schema v1.
 */
public final class InteropWrite {
    private final SerializerConfig.SerializerConfigBuilder serde;
    private final EventStreamClientFactory factory;
    private final String stream;

    private InteropWrite(String scope, String stream) {
        ClientConfig client = ClientConfig.builder().controllerURI(URI.create(System.getProperty("controller"))).build();
        SchemaRegistryClientConfig registry = SchemaRegistryClientConfig.builder()
                .schemaRegistryUri(URI.create(System.getProperty("registry"))).build();
        this.factory = EventStreamClientFactory.withScope(scope, client);
        this.stream = stream;
        this.serde = SerializerConfig.builder().registryConfig(registry).namespace(scope).groupId(stream)
                .createGroup(SerializationFormat.Avro, Compatibility.backward(), false).registerSchema(true);
    }

    public static void main(String[] a) throws Exception {
        Schema v0 = new Schema.Parser().parse(a[2]);
        Schema v1 = new Schema.Parser().parse(a[3]);
        InteropWrite w = new InteropWrite(a[0], a[1]);
        try (EventStreamClientFactory closed = w.factory) {
            w.write(v0, Codecs.None, 0, 400);
            w.write(v0, Codecs.GzipCompressor, 400, 600);
            w.write(v1, Codecs.SnappyCompressor, 600, 800);
            w.writeTransaction(v1, 800, 1000);
        }
    }

    private Serializer<GenericRecord> serializer(Schema schema, Codecs codecs) {
        Codec codec = codecs.getCodec();
        return SerializerFactory.avroSerializer(
                serde.registerCodec(codecs != Codecs.None).encoder(codec).build(), AvroSchema.ofRecord(schema));
    }

    private void write(Schema schema, Codecs codecs, int from, int to) {
        List<CompletableFuture<Void>> acknowledged = new ArrayList<>();
        try (EventStreamWriter<GenericRecord> writer = factory.createEventWriter(
                stream, serializer(schema, codecs), EventWriterConfig.builder().build())) {
            for (int i = from; i < to; i++) {
                acknowledged.add(writer.writeEvent("k" + i % 8, event(schema, i)));
            }
            writer.flush();
        }
        acknowledged.forEach(CompletableFuture::join);
    }

    private void writeTransaction(Schema schema, int from, int to) throws Exception {
        try (TransactionalEventStreamWriter<GenericRecord> writer = factory.createTransactionalEventWriter(
                stream, serializer(schema, Codecs.None), EventWriterConfig.builder().build())) {
            Transaction<GenericRecord> transaction = writer.beginTxn();
            for (int i = from; i < to; i++) {
                transaction.writeEvent("k" + i % 8, event(schema, i));
            }
            transaction.commit();
            while (transaction.checkStatus() != Transaction.Status.COMMITTED) {
                Thread.sleep(20);
            }
        }
    }

    private static GenericRecord event(Schema schema, int i) {
        GenericRecord r = new GenericData.Record(schema);
        r.put("id", (long) i);
        r.put("name", "n\u00e4me \ud83d\ude80 " + i);
        r.put("value", i * 0.5);
        r.put("ratio", i * 0.25f);
        r.put("count", -i);
        r.put("flag", i % 2 == 0);
        r.put("payload", ByteBuffer.wrap(bytes(i, i % 5)));
        r.put("checksum", new GenericData.Fixed(schema.getField("checksum").schema(), bytes(i, 4)));
        r.put("level", new GenericData.EnumSymbol(schema.getField("level").schema(), i % 3 == 0 ? "HIGH" : "LOW"));
        r.put("tags", tags(i));
        r.put("attrs", attrs(i));
        r.put("points", points(schema.getField("points").schema().getElementType(), i));
        r.put("note", i % 7 == 0 ? null : "note \u00e9\u20ac " + i);
        r.put("day", 20_000 + i);
        r.put("at", 1_700_000_000_000_000L + i);
        r.put("at_ms", 1_700_000_000_000L + i);
        r.put("local", 1_700_000_000_000_000L - i);
        r.put("price", ByteBuffer.wrap(new BigDecimal(500 - i).unscaledValue().toByteArray()));
        if (schema.getField("source") != null) {
            r.put("source", "source " + i);
        }
        return r;
    }

    private static byte[] bytes(int i, int length) {
        byte[] out = new byte[length];
        for (int k = 0; k < length; k++) {
            out[k] = (byte) (i + k);
        }
        return out;
    }

    private static List<String> tags(int i) {
        List<String> out = new ArrayList<>();
        for (int k = 0; k < i % 4; k++) {
            out.add(k == 2 ? null : "t" + k);
        }
        return out;
    }

    private static Map<String, Long> attrs(int i) {
        Map<String, Long> out = new LinkedHashMap<>();
        for (int k = 0; k < i % 3; k++) {
            out.put("a" + k, (long) i * 10 + k);
        }
        return out;
    }

    private static List<GenericRecord> points(Schema schema, int i) {
        List<GenericRecord> out = new ArrayList<>();
        for (int k = 0; k < i % 3; k++) {
            GenericRecord point = new GenericData.Record(schema);
            point.put("x", i);
            point.put("y", k == 1 ? null : -i);
            out.add(point);
        }
        return out;
    }
}
