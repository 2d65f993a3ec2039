import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import java.io.DataInputStream;
import java.io.BufferedInputStream;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Parses messages as dynamic ones, which is the first half of what Spark's from_protobuf does with them.
 *
 * Arguments: a file with a FileDescriptorSet of one file, the message's name, a file with the number of events and the
 * events (each behind its length), rounds. Prints the CPU nanoseconds for an event in the best round.
 */
public final class ProtobufDecode {
    public static void main(String[] a) throws Exception {
        FileDescriptorSet set = FileDescriptorSet.parseFrom(Files.readAllBytes(Path.of(a[0])));
        FileDescriptor file = FileDescriptor.buildFrom(set.getFile(0), new FileDescriptor[0]);
        Descriptor type = file.findMessageTypeByName(a[1]);
        byte[][] events;
        try (DataInputStream in = new DataInputStream(new BufferedInputStream(Files.newInputStream(Path.of(a[2]))))) {
            events = new byte[in.readInt()][];
            for (int i = 0; i < events.length; i++) {
                events[i] = in.readNBytes(in.readInt());
            }
        }
        var threads = java.lang.management.ManagementFactory.getThreadMXBean();
        long best = Long.MAX_VALUE;
        long fields = 0;
        for (int round = 0; round < Integer.parseInt(a[3]); round++) {
            long before = threads.getCurrentThreadCpuTime();
            for (byte[] event : events) {
                fields += DynamicMessage.parseFrom(type, event).getAllFields().size();
            }
            best = Math.min(best, threads.getCurrentThreadCpuTime() - before);
        }
        System.out.println((double) best / events.length + " " + fields);
    }
}
