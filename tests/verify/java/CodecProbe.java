import java.io.BufferedReader;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Reads messages with Apache Kafka's own classes: "name version hex" in, "hex json" out, line by line. */
public class CodecProbe {
    static final String[] PACKAGES = {
        "org.apache.kafka.common.message",
        "org.apache.kafka.common.metadata",
        "org.apache.kafka.coordinator.group.generated",
        "org.apache.kafka.coordinator.share.generated",
        "org.apache.kafka.coordinator.transaction.generated",
        "org.apache.kafka.raft.generated",
        "org.apache.kafka.server.log.remote.metadata.storage.generated",
    };

    static Class<?> find(String name) throws ClassNotFoundException {
        for (String place : PACKAGES) {
            for (String suffix : new String[] {"", "Data"}) {
                try {
                    return Class.forName(place + "." + name + suffix);
                } catch (ClassNotFoundException e) {
                    // try the next place
                }
            }
        }
        throw new ClassNotFoundException(name);
    }

    public static void main(String[] args) throws Exception {
        StringBuilder out = new StringBuilder();
        try (BufferedReader lines = Files.newBufferedReader(Path.of(args[0]))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] parts = line.split(" ", -1);
                short version = Short.parseShort(parts[1]);
                Class<?> known = find(parts[0]);
                Message message = (Message) known.getDeclaredConstructor().newInstance();
                ByteBuffer buffer = ByteBuffer.wrap(HexFormat.of().parseHex(parts[2]));
                message.read(new ByteBufferAccessor(buffer), version);
                if (buffer.hasRemaining()) throw new IllegalStateException("left over: " + line);
                ObjectSerializationCache cache = new ObjectSerializationCache();
                byte[] bytes = new byte[message.size(cache, version)];
                message.write(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), cache, version);
                Method write = Class.forName(known.getName() + "JsonConverter").getMethod("write", known, short.class);
                out.append(HexFormat.of().formatHex(bytes)).append(' ').append(write.invoke(null, message, version));
                out.append('\n');
            }
        }
        Files.writeString(Path.of(args[1]), out);
    }
}
