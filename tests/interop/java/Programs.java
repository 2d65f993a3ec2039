package interop;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Runs the programs of this folder, one after another: most of what each does in a JVM of its own is to start.
 *
 * <p>A request: the number of texts; controller, registry, what is on standard input, the class, its arguments. An answer:
 * 0 or 1; what was printed; what it failed with. A text is the number of its bytes, and they in UTF-8.
 */
public final class Programs {
    public static void main(String[] a) throws IOException {
        DataInputStream requests = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream answers = new DataOutputStream(new BufferedOutputStream(System.out));
        System.setOut(System.err);
        while (true) {
            String[] request;
            try {
                request = new String[requests.readInt()];
            } catch (EOFException e) {
                System.exit(0);
                return;
            }
            for (int i = 0; i < request.length; i++) {
                request[i] = new String(requests.readNBytes(requests.readInt()), StandardCharsets.UTF_8);
            }
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            String failure = run(request, printed);
            answers.writeInt(failure.isEmpty() ? 0 : 1);
            for (byte[] text : new byte[][] {printed.toByteArray(), failure.getBytes(StandardCharsets.UTF_8)}) {
                answers.writeInt(text.length);
                answers.write(text);
            }
            answers.flush();
        }
    }

    private static String run(String[] request, ByteArrayOutputStream printed) {
        System.setProperty("controller", request[0]);
        System.setProperty("registry", request[1]);
        System.setIn(new ByteArrayInputStream(request[2].getBytes(StandardCharsets.UTF_8)));
        try (PrintStream out = new PrintStream(printed, false, StandardCharsets.UTF_8)) {
            System.setOut(out);
            Class.forName(request[3]).getMethod("main", String[].class)
                    .invoke(null, (Object) Arrays.copyOfRange(request, 4, request.length));
            return "";
        } catch (Throwable e) {
            ByteArrayOutputStream trace = new ByteArrayOutputStream();
            e.printStackTrace(new PrintStream(trace, true, StandardCharsets.UTF_8));
            return trace.toString(StandardCharsets.UTF_8);
        } finally {
            System.setOut(System.err);
        }
    }
}
