package interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import io.pravega.client.ClientConfig;
import io.pravega.client.EventStreamClientFactory;
import io.pravega.client.stream.EventStreamWriter;
import io.pravega.client.stream.EventWriterConfig;
import io.pravega.client.stream.Serializer;
import io.pravega.schemaregistry.client.SchemaRegistryClientConfig;
import io.pravega.schemaregistry.contract.data.Compatibility;
import io.pravega.schemaregistry.contract.data.SerializationFormat;
import io.pravega.schemaregistry.serializer.json.schemas.JSONSchema;
import io.pravega.schemaregistry.serializer.protobuf.schemas.ProtobufSchema;
import io.pravega.schemaregistry.serializer.shared.codec.Codecs;
import io.pravega.schemaregistry.serializer.shared.impl.SerializerConfig;
import io.pravega.schemaregistry.serializers.SerializerFactory;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/**
 * Writes the events of its standard input, one a line, with the official JSON or Protobuf serializer: JSON texts, or
 * messages in base64. Arguments: scope, stream, Json or Protobuf, a name of {@link Codecs}, the schema's type, and the
 * JSON Schema or a FileDescriptorSet of one file in base64.
 */
public final class FormatWrite {
    private FormatWrite() {}

    public static void main(String[] a) throws Exception {
        ClientConfig client = ClientConfig.builder().controllerURI(URI.create(System.getProperty("controller"))).build();
        SerializationFormat format = SerializationFormat.valueOf(a[2]);
        Codecs codec = Codecs.valueOf(a[3]);
        SerializerConfig config = SerializerConfig.builder()
                .registryConfig(SchemaRegistryClientConfig.builder()
                        .schemaRegistryUri(URI.create(System.getProperty("registry"))).build())
                .namespace(a[0]).groupId(a[1]).createGroup(format, Compatibility.allowAny(), false)
                .registerSchema(true).registerCodec(codec != Codecs.None).encoder(codec.getCodec()).build();
        try (EventStreamClientFactory factory = EventStreamClientFactory.withScope(a[0], client)) {
            if (format == SerializationFormat.Json) {
                ObjectMapper json = new ObjectMapper();
                write(factory, a[1], SerializerFactory.jsonSerializer(config, JSONSchema.of(a[4], a[5], JsonNode.class)),
                        json::readTree);
            } else {
                FileDescriptorSet set = FileDescriptorSet.parseFrom(Base64.getDecoder().decode(a[5]));
                Descriptor type = descriptor(set, a[4]);
                write(factory, a[1], SerializerFactory.protobufSerializer(config, ProtobufSchema.of(a[4], set)),
                        line -> DynamicMessage.parseFrom(type, Base64.getDecoder().decode(line)));
            }
        }
    }

    private static Descriptor descriptor(FileDescriptorSet set, String type) throws Exception {
        FileDescriptorProto file = set.getFile(0);
        FileDescriptor built = FileDescriptor.buildFrom(file, new FileDescriptor[0]);
        return built.findMessageTypeByName(type.substring(file.getPackage().length() + 1));
    }

    private interface Parse<T> {
        T apply(String line) throws Exception;
    }

    private static <T> void write(EventStreamClientFactory factory, String stream, Serializer<T> serializer, Parse<T> parse)
            throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (EventStreamWriter<T> writer =
                factory.createEventWriter(stream, serializer, EventWriterConfig.builder().build())) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                writer.writeEvent(parse.apply(line));
            }
            writer.flush();
        }
    }
}
