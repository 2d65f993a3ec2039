package interop;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.pravega.shared.protocol.netty.EnhancedByteBufInputStream;
import io.pravega.shared.protocol.netty.WireCommand;
import io.pravega.shared.protocol.netty.WireCommands;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.InputStreamReader;
import java.util.HexFormat;

/** Decodes a frame a line (in hex) with the official classes, and prints it as they encode it. */
public final class WireEcho {
    public static void main(String[] a) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ByteBuf frame = Unpooled.wrappedBuffer(HexFormat.of().parseHex(line));
            int type = frame.readInt();
            int length = frame.readInt();
            WireCommand command = WireCommands.getType(type).readFrom(new EnhancedByteBufInputStream(frame), length);
            ByteArrayOutputStream payload = new ByteArrayOutputStream();
            command.writeFields(new DataOutputStream(payload));
            System.out.println(command.getClass().getSimpleName() + " " + HexFormat.of().formatHex(payload.toByteArray()));
        }
    }
}
