package interop;

import io.pravega.client.ClientConfig;
import io.pravega.client.admin.StreamInfo;
import io.pravega.client.admin.StreamManager;
import io.pravega.client.segment.impl.Segment;
import io.pravega.client.stream.Stream;
import io.pravega.client.stream.StreamCut;
import io.pravega.client.stream.impl.StreamCutImpl;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * Answers each line of its input with one of its own. "read TEXT" gives what the text stands for, as
 * "scope/stream id=offset,..."; "make scope/stream id=offset,..." gives the text; "head scope stream" and
 * "tail scope stream" give the texts of a real stream's cuts.
 */
public final class StreamCutTexts {
    public static void main(String[] a) throws Exception {
        ClientConfig client = ClientConfig.builder().controllerURI(URI.create(System.getProperty("controller"))).build();
        try (StreamManager manager = StreamManager.create(client);
             BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                System.out.println(answer(manager, line.split(" ")));
            }
        }
    }

    private static String answer(StreamManager manager, String[] words) {
        switch (words[0]) {
            case "read":
                return read(StreamCut.from(words[1]));
            case "make":
                return make(Stream.of(words[1]), words[2]).asText();
            default:
                StreamInfo info = manager.fetchStreamInfo(words[1], words[2]).join();
                return (words[0].equals("head") ? info.getHeadStreamCut() : info.getTailStreamCut()).asText();
        }
    }

    private static String read(StreamCut cut) {
        if (cut == StreamCut.UNBOUNDED) {
            return "unbounded";
        }
        Map<Long, Long> offsets = new TreeMap<>();
        cut.asImpl().getPositions().forEach((segment, offset) -> offsets.put(segment.getSegmentId(), offset));
        return cut.asImpl().getStream().getScopedName() + " " + offsets.entrySet().stream()
                .map(e -> e.getKey() + "=" + e.getValue()).collect(Collectors.joining(","));
    }

    private static StreamCut make(Stream stream, String offsets) {
        Map<Segment, Long> positions = new HashMap<>();
        for (String pair : offsets.split(",")) {
            String[] parts = pair.split("=");
            positions.put(new Segment(stream.getScope(), stream.getStreamName(), Long.parseLong(parts[0])), Long.parseLong(parts[1]));
        }
        return new StreamCutImpl(stream, positions);
    }
}
