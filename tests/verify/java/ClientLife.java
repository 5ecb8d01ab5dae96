import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What people do with Apache Kafka's own client, step by step; a line for each outcome.  Argument: BOOTSTRAP. */
public class ClientLife {
    private static final long T = 1_700_000_000_000L;
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    private static final TopicPartition PLACE = new TopicPartition("java", 0);

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            topics(admin);
            for (String codec : CODECS)
                step("write " + codec, () -> write(bootstrap, codec));
            step("write too much", () -> send(bootstrap, "java", null, "x".repeat(2_000_000)));
            step("write without a key", () -> send(bootstrap, "java-compacted", null, "x"));
            step("write with a key", () -> send(bootstrap, "java-compacted", "k", "x"));
            step("write to a topic that is made by it", () -> send(bootstrap, "made-by-java", null, "x"));
            step("read", () -> read(bootstrap, "read_uncommitted"));
            step("read committed", () -> read(bootstrap, "read_committed").length());
            offsets(bootstrap, admin);
            options(admin);
            changes(admin);
        }
    }

    private static void topics(Admin admin) {
        step("nodes", () -> admin.describeCluster().nodes().get().stream().map(node -> node.id()).toList());
        step("make", () -> admin.createTopics(List.of(new NewTopic("java", 3, (short) 1),
            new NewTopic("java-compacted", 1, (short) 1).configs(Map.of("cleanup.policy", "compact")))).all().get());
        step("made with", () -> admin.createTopics(List.of(new NewTopic("seen", 2, (short) 1))).config("seen").get()
            .entries().stream().map(ClientLife::shown).sorted().toList());
        for (NewTopic bad : List.of(new NewTopic("a b", 1, (short) 1), new NewTopic("java", 1, (short) 1),
                new NewTopic("none", 0, (short) 1), new NewTopic("many", 1, (short) 3), new NewTopic("", 1, (short) 1),
                new NewTopic("odd", 1, (short) 1).configs(Map.of("retention.ms", "soon")),
                new NewTopic("placed", Map.of(0, List.of(9)))))
            step("make " + bad.name(), () -> admin.createTopics(List.of(bad)).all().get());
        settle();
        step("validate", () -> admin.createTopics(List.of(new NewTopic("never", 2, (short) 1)),
            new CreateTopicsOptions().validateOnly(true)).numPartitions("never").get());
        step("list", () -> admin.listTopics().names().get().stream().sorted().toList());
        step("describe", () -> described(admin.describeTopics(List.of("java")).topicNameValues().get("java").get()));
        step("describe nothing", () -> admin.describeTopics(List.of("nowhere")).allTopicNames().get());
        step("features", () -> new TreeMap<>(admin.describeFeatures().featureMetadata().get().finalizedFeatures()));
        step("quorum", () -> admin.describeMetadataQuorum().quorumInfo().get().leaderId());
        step("folders", () -> admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).values().stream()
            .map(dir -> new TreeMap<>(Map.of("replicas", dir.replicaInfos().size()))).toList());
    }

    private static String described(TopicDescription topic) {
        return topic.name() + " " + topic.isInternal() + " " + topic.partitions() + " " + topic.authorizedOperations();
    }

    private static String shown(ConfigEntry entry) {
        return entry.name() + "=" + entry.value() + " " + entry.source() + " " + entry.type() + " " + entry.isReadOnly()
            + " " + entry.isSensitive() + " " + entry.synonyms();
    }

    private static Object write(String bootstrap, String codec) throws Exception {
        List<String> found = new ArrayList<>();
        try (var producer = producer(bootstrap, codec)) {
            List<java.util.concurrent.Future<org.apache.kafka.clients.producer.RecordMetadata>> sent = new ArrayList<>();
            for (int n = 0; n < 50; n++) {
                var record = new ProducerRecord<>("java", 0, T + n, n % 2 == 0 ? null : "k" + n, n % 7 == 0 ? null : "v" + n);
                record.headers().add("h", ("" + n).getBytes(StandardCharsets.UTF_8)).add("none", null);
                sent.add(producer.send(record));
            }
            for (var one : sent)
                found.add(one.get().toString() + "@" + one.get().timestamp());
        }
        return found;
    }

    private static KafkaProducer<String, String> producer(String bootstrap, String codec) {
        return new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap, "compression.type", codec, "linger.ms", "20",
            "max.request.size", "5000000", "max.block.ms", "20000"), new StringSerializer(), new StringSerializer());
    }

    private static Object send(String bootstrap, String topic, String key, String value) throws Exception {
        try (var producer = producer(bootstrap, "none")) {
            return producer.send(new ProducerRecord<>(topic, 0, T, key, value)).get().toString();
        }
    }

    private static String read(String bootstrap, String isolation) {
        StringBuilder found = new StringBuilder();
        try (var consumer = consumer(bootstrap, isolation)) {
            consumer.assign(List.of(PLACE));
            consumer.seekToBeginning(List.of(PLACE));
            long end = consumer.endOffsets(List.of(PLACE)).get(PLACE);
            long until = System.currentTimeMillis() + 20_000;
            while (consumer.position(PLACE) < end && System.currentTimeMillis() < until)
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200)))
                    found.append(record).append('\n');
            found.append(consumer.position(PLACE)).append(' ').append(consumer.currentLag(PLACE));
        }
        return found.toString().replace('\n', ';');
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap, String isolation) {
        return new KafkaConsumer<>(Map.of("bootstrap.servers", bootstrap, "isolation.level", isolation,
            "auto.offset.reset", "none"), new StringDeserializer(), new StringDeserializer());
    }

    private static void offsets(String bootstrap, Admin admin) {
        for (long time : List.of(0L, T + 20, T + 10_000_000))
            step("time " + (time - T), () -> {
                try (var consumer = consumer(bootstrap, "read_uncommitted")) {
                    return consumer.offsetsForTimes(Map.of(PLACE, time)).get(PLACE);
                }
            });
        for (OffsetSpec spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp(),
                OffsetSpec.earliestLocal(), OffsetSpec.latestTiered(), OffsetSpec.forTimestamp(T + 7)))
            step("list " + spec.getClass().getSimpleName(), () -> admin.listOffsets(Map.of(PLACE, spec)).partitionResult(PLACE).get());
        step("seek out of range", () -> {
            try (var consumer = consumer(bootstrap, "read_uncommitted")) {
                consumer.assign(List.of(PLACE));
                consumer.seek(PLACE, 9_999);
                for (int tries = 0; tries < 20; tries++)
                    consumer.poll(Duration.ofMillis(200));
                return "nothing";
            }
        });
        step("partitions", () -> {
            try (var consumer = consumer(bootstrap, "read_uncommitted")) {
                return consumer.partitionsFor("java").size() + " " + new java.util.TreeSet<>(consumer.listTopics().keySet());
            }
        });
    }

    private static void options(Admin admin) {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "java");
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        step("options", () -> entries(admin, topic));
        step("broker's options", () -> entries(admin, broker));
        step("options of nothing", () -> entries(admin, new ConfigResource(ConfigResource.Type.TOPIC, "nowhere")));
        for (AlterConfigOp op : List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "1000"), OpType.SET),
                new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), OpType.APPEND),
                new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), OpType.SUBTRACT),
                new AlterConfigOp(new ConfigEntry("retention.ms", null), OpType.DELETE),
                new AlterConfigOp(new ConfigEntry("retention.ms", "soon"), OpType.SET),
                new AlterConfigOp(new ConfigEntry("no.such", "1"), OpType.SET)))
            step("change " + op, () -> admin.incrementalAlterConfigs(Map.of(topic, Set.of(op))).all().get());
        settle();
        step("options then", () -> entries(admin, topic));
        step("resources", () -> admin.listConfigResources().all().get().stream().map(Object::toString).sorted().toList());
    }

    private static Object entries(Admin admin, ConfigResource resource) throws Exception {
        Config found = admin.describeConfigs(List.of(resource)).all().get().get(resource);
        return found.entries().stream().map(ClientLife::shown).sorted().toList();
    }

    private static void changes(Admin admin) {
        for (long offset : List.of(10L, 99_999L, -1L))
            step("delete up to " + offset, () -> admin.deleteRecords(Map.of(PLACE, RecordsToDelete.beforeOffset(offset)))
                .lowWatermarks().get(PLACE).get().lowWatermark());
        for (int count : List.of(5, 5, 2))
            step(count + " partitions", () -> admin.createPartitions(Map.of("java", NewPartitions.increaseTo(count))).all().get());
        step("producers", () -> admin.describeProducers(List.of(PLACE)).partitionResult(PLACE).get().activeProducers().size());
        step("forget a broker", () -> admin.unregisterBroker(77).all().get());
        for (String name : List.of("seen", "seen", "nowhere"))
            step("delete " + name, () -> admin.deleteTopics(List.of(name)).all().get());
        settle();
        step("in the end", () -> admin.listTopics().names().get().stream().sorted().toList());
    }

    /** Apache Kafka's broker learns of a change a moment after its controller has answered. */
    private static void settle() {
        step("settle", () -> {
            Thread.sleep(500);
            return null;
        });
    }

    private static void step(String title, Callable<Object> work) {
        Object outcome;
        try {
            outcome = work.call();
        } catch (ExecutionException error) {
            outcome = error.getCause();
        } catch (Exception error) {
            outcome = error;
        }
        System.out.println(title + "\t" + String.valueOf(outcome).replace('\n', ' '));
    }
}
