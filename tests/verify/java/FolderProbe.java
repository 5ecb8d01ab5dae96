import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;

import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Looks at a broker's partitions as clients do.  Fields are separated by tabs, bytes are in hex, "-" is null.
 *
 * create BOOTSTRAP FILE   makes the topics; each line: topic, then key=value for each of its configs
 * look BOOTSTRAP FILE     each line: topic, then times to look up; prints offsets, times, producers and records
 * abort BOOTSTRAP TOPIC ID EPOCH COORDINATOR_EPOCH   ends an open transaction
 */
public class FolderProbe {
    private static final long PATIENCE_MS = 60_000;

    public static void main(String[] args) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[1]))) {
            switch (args[0]) {
                case "create" -> create(admin, lines(args[2]));
                case "look" -> look(admin, args[1], lines(args[2]));
                default -> admin.abortTransaction(new AbortTransactionSpec(new TopicPartition(args[2], 0),
                    Long.parseLong(args[3]), Short.parseShort(args[4]), Integer.parseInt(args[5]))).all().get();
            }
        }
    }

    private static List<String[]> lines(String file) throws Exception {
        return Files.readAllLines(Path.of(file)).stream().map(line -> line.split("\t")).toList();
    }

    private static void create(Admin admin, List<String[]> lines) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (String[] line : lines) {
            Map<String, String> configs = new java.util.HashMap<>();
            for (int i = 1; i < line.length; i++)
                configs.put(line[i].split("=")[0], line[i].split("=")[1]);
            topics.add(new NewTopic(line[0], 1, (short) 1).configs(configs));
        }
        admin.createTopics(topics).all().get();
    }

    private static void look(Admin admin, String bootstrap, List<String[]> lines) throws Exception {
        List<TopicPartition> partitions = lines.stream().map(line -> new TopicPartition(line[0], 0)).toList();
        for (TopicPartition partition : partitions) {
            var newest = admin.listOffsets(Map.of(partition, OffsetSpec.maxTimestamp())).partitionResult(partition).get();
            print("newest", partition.topic(), newest.timestamp(), newest.offset());
            for (var state : admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers())
                print("producer", partition.topic(), state.producerId(), state.producerEpoch(), state.lastSequence(),
                    state.lastTimestamp(), state.coordinatorEpoch().orElse(-1), state.currentTransactionStartOffset().orElse(-1));
        }
        for (String isolation : List.of("read_uncommitted", "read_committed")) {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", bootstrap);
            properties.put("isolation.level", isolation);
            properties.put("fetch.max.wait.ms", "50");
            try (var consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                if (isolation.equals("read_uncommitted"))
                    times(consumer, lines);
                read(consumer, isolation, partitions);
            }
        }
    }

    private static void times(KafkaConsumer<byte[], byte[]> consumer, List<String[]> lines) {
        for (String[] line : lines) {
            TopicPartition partition = new TopicPartition(line[0], 0);
            for (int i = 1; i < line.length; i++) {
                var found = consumer.offsetsForTimes(Map.of(partition, Long.parseLong(line[i]))).get(partition);
                print("time", line[0], line[i], found == null ? -1 : found.timestamp(), found == null ? -1 : found.offset());
            }
        }
    }

    private static void read(KafkaConsumer<byte[], byte[]> consumer, String isolation, List<TopicPartition> partitions) {
        consumer.assign(partitions);
        consumer.seekToBeginning(partitions);
        Map<TopicPartition, Long> starts = consumer.beginningOffsets(partitions);
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
        for (TopicPartition partition : partitions)
            print("range", isolation, partition.topic(), starts.get(partition), ends.get(partition));
        long until = System.currentTimeMillis() + PATIENCE_MS;
        while (partitions.stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition))) {
            if (System.currentTimeMillis() > until)
                throw new IllegalStateException("the end was not reached in time");
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100)))
                print("record", isolation, record.topic(), record.offset(), record.timestamp(), record.timestampType(),
                    record.leaderEpoch().orElse(-1), hex(record.key()), hex(record.value()), headers(record));
        }
    }

    private static String headers(ConsumerRecord<byte[], byte[]> record) {
        List<String> found = new ArrayList<>();
        for (Header header : record.headers())
            found.add(hex(header.key().getBytes(java.nio.charset.StandardCharsets.UTF_8)) + "=" + hex(header.value()));
        return String.join(";", found);
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "-" : HexFormat.of().formatHex(bytes);
    }

    private static void print(Object... fields) {
        List<String> words = new ArrayList<>();
        for (Object field : fields)
            words.add(String.valueOf(field));
        System.out.println(String.join("\t", words));
    }
}
