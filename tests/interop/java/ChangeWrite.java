package interop;

import io.pravega.client.ClientConfig;
import io.pravega.client.EventStreamClientFactory;
import io.pravega.client.stream.EventStreamWriter;
import io.pravega.client.stream.EventWriterConfig;
import io.pravega.client.stream.Serializer;
import io.pravega.schemaregistry.client.SchemaRegistryClientConfig;
import io.pravega.schemaregistry.contract.data.Compatibility;
import io.pravega.schemaregistry.contract.data.SerializationFormat;
import io.pravega.schemaregistry.serializer.avro.schemas.AvroSchema;
import io.pravega.schemaregistry.serializer.shared.impl.SerializerConfig;
import io.pravega.schemaregistry.serializers.SerializerFactory;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;

/**
 * Writes events to scope/stream with the official Avro serializer. Arguments: scope, stream, schema. Each line of the
 * input is a routing key, a tab, and an event in Avro's JSON.
 */
public final class ChangeWrite {
    public static void main(String[] a) throws Exception {
        ClientConfig client = ClientConfig.builder().controllerURI(URI.create(System.getProperty("controller"))).build();
        SchemaRegistryClientConfig registry = SchemaRegistryClientConfig.builder()
                .schemaRegistryUri(URI.create(System.getProperty("registry"))).build();
        SerializerConfig serde = SerializerConfig.builder().registryConfig(registry).namespace(a[0]).groupId(a[1])
                .createGroup(SerializationFormat.Avro, Compatibility.backward(), false).registerSchema(true).build();
        Schema schema = new Schema.Parser().parse(a[2]);
        Serializer<GenericRecord> serializer = SerializerFactory.avroSerializer(serde, AvroSchema.ofRecord(schema));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (EventStreamClientFactory factory = EventStreamClientFactory.withScope(a[0], client);
             EventStreamWriter<GenericRecord> writer = factory.createEventWriter(
                     a[1], serializer, EventWriterConfig.builder().build())) {
            GenericDatumReader<GenericRecord> reader = new GenericDatumReader<>(schema);
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] parts = line.split("\t", 2);
                writer.writeEvent(parts[0], reader.read(null, DecoderFactory.get().jsonDecoder(schema, parts[1])));
            }
            writer.flush();
        }
    }
}
