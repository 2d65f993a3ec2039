package interop;

import io.pravega.client.ClientConfig;
import io.pravega.client.KeyValueTableFactory;
import io.pravega.client.stream.Serializer;
import io.pravega.client.tables.KeyValueTable;
import io.pravega.client.tables.KeyValueTableClientConfiguration;
import io.pravega.client.tables.Put;
import io.pravega.client.tables.TableKey;
import io.pravega.schemaregistry.client.SchemaRegistryClientConfig;
import io.pravega.schemaregistry.serializer.avro.schemas.AvroSchema;
import io.pravega.schemaregistry.serializer.shared.impl.SerializerConfig;
import io.pravega.schemaregistry.serializers.SerializerFactory;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.generic.GenericRecordBuilder;

/**
 * Entries of a table with PRIMARY KEY (id BIGINT, code STRING of 8 bytes) and Avro values, as docs/key-value-tables.md
 * says that keys are made. Arguments: scope, table, id, code and, to put, the schema and a name; else it gets and prints
 * the value.
 */
public final class KeyedPuts {
    public static void main(String[] a) throws Exception {
        ClientConfig client = ClientConfig.builder().controllerURI(URI.create(System.getProperty("controller"))).build();
        SerializerConfig serde = SerializerConfig.builder()
                .registryConfig(SchemaRegistryClientConfig.builder()
                        .schemaRegistryUri(URI.create(System.getProperty("registry"))).build())
                .namespace(a[0]).groupId(a[1]).build();
        ByteBuffer key = ByteBuffer.allocate(16);
        key.putLong(Long.parseLong(a[2])).put(Arrays.copyOf(a[3].getBytes(StandardCharsets.UTF_8), 8)).flip();
        try (KeyValueTableFactory factory = KeyValueTableFactory.withScope(a[0], client);
             KeyValueTable table = factory.forKeyValueTable(a[1], KeyValueTableClientConfiguration.builder().build())) {
            if (a.length > 4) {
                Schema schema = new Schema.Parser().parse(a[4]);
                Serializer<GenericRecord> serializer = SerializerFactory.avroSerializer(serde, AvroSchema.ofRecord(schema));
                GenericRecord row = new GenericRecordBuilder(schema).set("name", a[5]).build();
                table.update(new Put(new TableKey(key), serializer.serialize(row))).join();
            } else {
                System.out.println(SerializerFactory.avroGenericDeserializer(serde, null)
                        .deserialize(table.get(new TableKey(key)).join().getValue()));
            }
        }
    }
}
