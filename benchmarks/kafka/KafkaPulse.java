import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What benchmarks ask of a broker: {@code create TOPIC PARTITIONS}; and {@code pulse SOURCE SINK PARTITIONS EVENTS
 * WARM_UP_S SECONDS}, which writes so many events a second to one topic, follows the other, and prints how long each
 * took, in microseconds. The first argument is the broker's address.
 */
public final class KafkaPulse {
    private static final int EVENT_BYTES = 100;
    private static final int TICK_MS = 10;

    public static void main(String[] arguments) throws Exception {
        if (arguments[1].equals("create")) {
            try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
                NewTopic topic = new NewTopic(arguments[2], Integer.parseInt(arguments[3]), (short) 1);
                admin.createTopics(List.of(topic)).all().get();
            }
            return;
        }
        int partitions = Integer.parseInt(arguments[4]);
        Thread writer = new Thread(() -> write(arguments[0], arguments[2], Integer.parseInt(arguments[5])));
        writer.setDaemon(true);
        writer.start();
        follow(
                arguments[0], arguments[3], partitions,
                Long.parseLong(arguments[6]) * 1_000_000, Long.parseLong(arguments[7]) * 1_000_000);
    }

    private static void follow(String broker, String topic, int partitions, long warmUp, long measured) {
        Properties properties = new Properties();
        properties.putAll(Map.of("bootstrap.servers", broker, "auto.offset.reset", "latest"));
        StringBuilder delays = new StringBuilder();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> all =
                    IntStream.range(0, partitions).mapToObj(number -> new TopicPartition(topic, number)).toList();
            consumer.assign(all);
            consumer.seekToEnd(all);
            long begin = now() + warmUp;
            for (long now = now(); now < begin + measured; ) {
                var records = consumer.poll(Duration.ofMillis(500));
                now = now();
                if (now >= begin) {
                    for (var record : records) {
                        delays.append(now - ByteBuffer.wrap(record.value()).getLong()).append('\n');
                    }
                }
            }
        }
        System.out.print(delays);
    }

    private static void write(String broker, String topic, int eventsPerSecond) {
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", broker), new ByteArraySerializer(), new ByteArraySerializer())) {
            long due = System.nanoTime();
            for (long number = 0; ; ) {
                due += TICK_MS * 1_000_000L;
                byte[] event = new byte[EVENT_BYTES];
                ByteBuffer.wrap(event).putLong(now());
                for (int count = eventsPerSecond * TICK_MS / 1000; count > 0; count--) {
                    producer.send(new ProducerRecord<>(topic, Long.toString(number++).getBytes(), event));
                }
                producer.flush();
                Thread.sleep(Math.max(0, (due - System.nanoTime()) / 1_000_000));
            }
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static long now() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
    }
}
