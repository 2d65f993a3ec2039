package servers;

import io.pravega.client.ClientConfig;
import io.pravega.client.EventStreamClientFactory;
import io.pravega.client.KeyValueTableFactory;
import io.pravega.client.stream.EventStreamWriter;
import io.pravega.client.stream.EventWriterConfig;
import io.pravega.client.stream.Transaction;
import io.pravega.client.stream.TransactionalEventStreamWriter;
import io.pravega.client.stream.impl.ByteArraySerializer;
import io.pravega.client.tables.KeyValueTable;
import io.pravega.client.tables.KeyValueTableClientConfiguration;
import io.pravega.client.tables.Put;
import io.pravega.client.tables.TableKey;
import io.pravega.shared.security.auth.DefaultCredentials;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/**
 * The official client, which writes events, commits transactions and changes a key-value table without a pause.
 *
 * <p>The scope has the streams "direct" and "whole" and the key-value table "counts", whose keys have one byte. Arguments:
 * the scope; with authentication or TLS the certificates' file, the user and the password are the first three lines of
 * standard input, else these are empty. Each further line is answered by one line for each thread since the last one: its
 * name, what it has done, the longest time between two things done in milliseconds, how many attempts have failed.
 */
public final class Pulse {
    private static final int KEYS = 16;
    private static final int LEASE_MS = 270_000;
    private static final int PAUSE_MS = 50;

    private interface Step {
        void run() throws Exception;
    }

    private static final class Pulsing extends Thread {
        private final Step step;
        private long done;
        private long failed;
        private long longest;
        private long since = System.nanoTime();

        private Pulsing(String name, Step step) {
            super(name);
            this.step = step;
            setDaemon(true);
        }

        @Override
        public void run() {
            while (true) {
                try {
                    step.run();
                    note();
                    Thread.sleep(PAUSE_MS);
                } catch (InterruptedException e) {
                    return;
                } catch (Exception e) {
                    fail(e);
                }
            }
        }

        private synchronized void note() {
            long now = System.nanoTime();
            longest = Math.max(longest, now - since);
            since = now;
            done++;
        }

        private synchronized void fail(Exception e) {
            failed++;
            System.err.println(getName() + ": " + e);
        }

        private synchronized String told() {
            long now = Math.max(longest, System.nanoTime() - since);
            String line = getName() + "\t" + done + "\t" + now / 1_000_000 + "\t" + failed;
            done = 0;
            failed = 0;
            longest = 0;
            since = System.nanoTime();
            return line;
        }
    }

    public static void main(String[] a) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String authority = lines.readLine();
        String user = lines.readLine();
        String password = lines.readLine();
        ClientConfig.ClientConfigBuilder builder =
                ClientConfig.builder().controllerURI(URI.create(System.getProperty("controller")));
        if (!authority.isEmpty()) {
            builder = builder.trustStore(authority).validateHostName(false);
        }
        if (!user.isEmpty()) {
            builder = builder.credentials(new DefaultCredentials(password, user));
        }
        ClientConfig client = builder.build();
        EventWriterConfig patient = EventWriterConfig.builder().transactionTimeoutTime(LEASE_MS).build();
        EventStreamClientFactory streams = EventStreamClientFactory.withScope(a[0], client);
        EventStreamWriter<byte[]> writer = streams.createEventWriter("direct", new ByteArraySerializer(), patient);
        TransactionalEventStreamWriter<byte[]> whole =
                streams.createTransactionalEventWriter("pulse", "whole", new ByteArraySerializer(), patient);
        KeyValueTable counts = KeyValueTableFactory.withScope(a[0], client)
                .forKeyValueTable("counts", KeyValueTableClientConfiguration.builder().build());
        Map<String, Step> steps = new LinkedHashMap<>();
        steps.put("writer", () -> {
            List<CompletableFuture<Void>> acknowledged = new ArrayList<>();
            for (int key = 0; key < KEYS; key++) {
                acknowledged.add(writer.writeEvent("key " + key, new byte[] {1}));
            }
            writer.flush();
            acknowledged.forEach(CompletableFuture::join);
        });
        steps.put("transactions", () -> {
            Transaction<byte[]> transaction = whole.beginTxn();
            for (int key = 0; key < KEYS; key++) {
                transaction.writeEvent("key " + key, new byte[] {1});
            }
            transaction.commit();
            Transaction.Status status = transaction.checkStatus();
            while (status != Transaction.Status.COMMITTED) {
                if (status == Transaction.Status.ABORTED) {
                    throw new IllegalStateException("the transaction was aborted");
                }
                Thread.sleep(10);
                status = transaction.checkStatus();
            }
        });
        int[] asked = new int[1];
        steps.put("counter", () -> {
            ByteBuffer key = ByteBuffer.wrap(new byte[] {(byte) ('a' + asked[0] % KEYS)});
            counts.update(new Put(new TableKey(key), ByteBuffer.wrap(new byte[] {1}))).join();
            asked[0]++;
        });
        List<Pulsing> threads = new ArrayList<>();
        steps.forEach((name, step) -> threads.add(new Pulsing(name, step)));
        threads.forEach(Thread::start);
        while (lines.readLine() != null) {
            StringBuilder told = new StringBuilder();
            threads.forEach(thread -> told.append(thread.told()).append('\n'));
            System.out.print(told.append('\n'));
            System.out.flush();
        }
        System.exit(0);
    }
}
