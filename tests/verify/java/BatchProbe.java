// What Apache Kafka's own classes say about record batches.
//
//   read FILE    each line a batch in hex: prints its header and every record as one line of JSON
//   write        prints batches of every codec and kind, as a name and hex
//   check FILE   each line a case (see Case): prints the error code that a broker answers, and what it would store

import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.CorruptRecordException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

public class BatchProbe {
    static final HexFormat HEX = HexFormat.of();
    static final long START = 1700000000000L;

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "read" -> { for (String line : Files.readAllLines(Path.of(args[1]))) System.out.println(read(line)); }
            case "write" -> write();
            case "check" -> { for (String line : Files.readAllLines(Path.of(args[1]))) System.out.println(check(line)); }
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    static MemoryRecords records(String hex) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(HEX.parseHex(hex)));
    }

    static String hex(ByteBuffer buffer) {
        if (buffer == null) return "null";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return "\"" + HEX.formatHex(bytes) + "\"";
    }

    static String read(String line) {
        StringBuilder out = new StringBuilder();
        for (MutableRecordBatch batch : records(line).batches()) {
            batch.ensureValid();
            out.append("{\"base_offset\":").append(batch.baseOffset())
                .append(",\"last_offset\":").append(batch.lastOffset())
                .append(",\"leader_epoch\":").append(batch.partitionLeaderEpoch())
                .append(",\"codec\":\"").append(batch.compressionType().name).append('"')
                .append(",\"timestamp_type\":\"").append(batch.timestampType()).append('"')
                .append(",\"max_timestamp\":").append(batch.maxTimestamp())
                .append(",\"producer_id\":").append(batch.producerId())
                .append(",\"producer_epoch\":").append(batch.producerEpoch())
                .append(",\"base_sequence\":").append(batch.baseSequence())
                .append(",\"last_sequence\":").append(batch.lastSequence())
                .append(",\"transactional\":").append(batch.isTransactional())
                .append(",\"control\":").append(batch.isControlBatch())
                .append(",\"delete_horizon_ms\":")
                .append(batch.deleteHorizonMs().isPresent() ? "" + batch.deleteHorizonMs().getAsLong() : "null")
                .append(",\"records\":[");
            String comma = "";
            for (Record record : batch) {
                out.append(comma).append("[").append(record.offset()).append(',').append(record.timestamp())
                    .append(',').append(hex(record.key())).append(',').append(hex(record.value())).append(",[");
                String inner = "";
                for (Header header : record.headers()) {
                    out.append(inner).append("[\"")
                        .append(HEX.formatHex(header.key().getBytes(StandardCharsets.UTF_8))).append("\",")
                        .append(header.value() == null ? "null" : "\"" + HEX.formatHex(header.value()) + "\"")
                        .append("]");
                    inner = ",";
                }
                out.append("]]");
                comma = ",";
            }
            out.append("]}");
        }
        return out.toString();
    }

    static List<SimpleRecord> sample() {
        byte[] large = new byte[200_000];
        for (int i = 0; i < large.length; i++) large[i] = (byte) (i * 31 >> 3);
        return List.of(
            new SimpleRecord(START, "k1".getBytes(), "v1".getBytes()),
            new SimpleRecord(START + 5, null, "no key".getBytes()),
            new SimpleRecord(START - 70_000, "tombstone".getBytes(), null),
            new SimpleRecord(START + 10_000_000_000L, "k2".getBytes(), large, new Header[] {
                new RecordHeader("h1", "x".getBytes()), new RecordHeader("h2", null), new RecordHeader("", new byte[0]),
                new RecordHeader("ü", new byte[300])}));
    }

    static void write() {
        for (CompressionType codec : CompressionType.values()) {
            Compression compression = Compression.of(codec).build();
            for (TimestampType type : List.of(TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)) {
                for (String kind : List.of("plain", "idempotent", "transactional")) {
                    boolean owned = !kind.equals("plain");
                    MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 20), RecordBatch.CURRENT_MAGIC_VALUE,
                        compression, type, 100L, START + 99, owned ? 4000L : -1L, (short) (owned ? 2 : -1),
                        owned ? Integer.MAX_VALUE - 1 : -1, kind.equals("transactional"), 5);
                    for (SimpleRecord record : sample()) builder.append(record);
                    show(codec.name + " " + kind + " " + type, builder.build());
                }
            }
        }
        for (ControlRecordType type : List.of(ControlRecordType.COMMIT, ControlRecordType.ABORT))
            show("marker " + type, MemoryRecords.withEndTransactionMarker(100L, START, 5, 4000L, (short) 2,
                new EndTransactionMarker(type, 7)));
    }

    static void show(String name, MemoryRecords records) {
        System.out.println(name + "\t" + hex(records.buffer()).replace("\"", ""));
    }

    // A case: produce version, target codec or "producer", compacted, timestamp type, before, after, now, largest
    // message, origin, hex.
    static String check(String line) {
        String[] field = line.split(" ", -1);
        long now = Long.parseLong(field[6]);
        TimestampType type = TimestampType.forName(field[3]);
        AppendOrigin origin = AppendOrigin.valueOf(field[8]);
        try {
            MemoryRecords records = records(field[9]);
            if (origin == AppendOrigin.CLIENT) ProduceRequest.validateRecords(Short.parseShort(field[0]), records);
            CompressionType source = analyze(records, origin, Integer.parseInt(field[7]));
            Compression target = Compression.of(field[1].equals("producer") ? source : CompressionType.forName(field[1])).build();
            LogValidator validator = new LogValidator(records, new TopicPartition("t", 0), frozen(now), source, target,
                Boolean.parseBoolean(field[2]), RecordBatch.CURRENT_MAGIC_VALUE, type, Long.parseLong(field[4]),
                Long.parseLong(field[5]), 5, origin);
            LogValidator.ValidationResult result = validator.validateMessagesAndAssignOffsets(
                PrimitiveRef.ofLong(100L), new NoMetrics(), BufferSupplier.NO_CACHING);
            for (RecordBatch batch : result.validatedRecords.batches())
                if (batch.sizeInBytes() > Integer.parseInt(field[7])) throw new RecordTooLargeException("size after rewriting");
            return "0 " + result.maxTimestampMs + " " + hex(result.validatedRecords.buffer()).replace("\"", "");
        } catch (RecordValidationException error) {
            StringBuilder indexes = new StringBuilder();
            error.recordErrors().forEach(each -> indexes.append(indexes.length() > 0 ? "," : "").append(each.batchIndex));
            return Errors.forException(error.invalidException()).code() + " " + indexes;
        } catch (Throwable error) {
            return Errors.forException(error).code() + " " + error.toString().replaceAll("\\s+", " ");
        }
    }

    static Time frozen(long now) {
        return (Time) Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, args) -> method.getName().equals("milliseconds") ? (Object) now : (Object) 0L);
    }

    // What the log looks at before LogValidator does.
    static CompressionType analyze(MemoryRecords records, AppendOrigin origin, int largest) {
        CompressionType source = CompressionType.NONE;
        for (RecordBatch batch : records.batches()) {
            if (origin == AppendOrigin.CLIENT && batch.baseOffset() != 0) throw new InvalidRecordException("base offset");
            if (batch.sizeInBytes() > largest) throw new RecordTooLargeException("size");
            if (!batch.isValid()) throw new CorruptRecordException("crc");
            if (batch.compressionType() != CompressionType.NONE) source = batch.compressionType();
        }
        return source;
    }

    static class NoMetrics implements LogValidator.MetricsRecorder {
        public void recordInvalidMagic() { }
        public void recordInvalidOffset() { }
        public void recordInvalidSequence() { }
        public void recordInvalidChecksums() { }
        public void recordNoKeyCompactedTopic() { }
    }
}
