// Apache Kafka's own consumers in groups of both protocols: what they get, step by step.
// Argument: the bootstrap address.  Prints: step, tab, outcome.

import java.time.Duration;
import java.util.*;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

public class GroupLife {
    static final int PARTITIONS = 6;
    static final int RECORDS = 60;
    static final long PATIENCE_MS = 60_000;
    static final int LOOKS = 50;
    static String bootstrap;
    static Admin admin;
    static final List<KafkaConsumer<String, String>> running = new ArrayList<>();
    static final List<String> values = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        for (String topic : List.of("life-a", "life-b", "other"))
            admin.createTopics(List.of(new NewTopic(topic, PARTITIONS, (short) 1))).all().get();
        produce();
        share();
        patterns();
        refused();
        migrate();
        admin.close();
    }

    static void share() throws Exception {
        KafkaConsumer<String, String> first = join("shared", "consumer", Map.of());
        first.subscribe(List.of("life-a"));
        until(() -> values.size() >= RECORDS);
        report("one member reads", values.size());
        KafkaConsumer<String, String> second = join("shared", "consumer", Map.of("group.instance.id", "one"));
        second.subscribe(List.of("life-a"));
        shared(3, 3);
        report("two members share", sizes());
        KafkaConsumer<String, String> third = join("shared", "consumer", Map.of("group.remote.assignor", "range"));
        third.subscribe(List.of("life-a"));
        shared(2, 2, 2);
        report("three members share", sizes());
        describe("shared");
        until(() -> first.position(first.assignment().iterator().next()) == RECORDS / PARTITIONS);
        first.commitSync();
        leave(first);
        shared(3, 3);
        leave(second);
        // A static member that leaves for a while keeps what it owns.
        report("a static member goes", sizes());
        KafkaConsumer<String, String> back = join("shared", "consumer", Map.of("group.instance.id", "one"));
        back.subscribe(List.of("life-a"));
        shared(3, 3);
        report("and comes back", sizes());
        leave(back);
        leave(third);
        describe("shared");
    }

    static void patterns() {
        KafkaConsumer<String, String> consumer = join("patterns", "consumer", Map.of());
        consumer.subscribe(new SubscriptionPattern("life-.*"));
        until(() -> consumer.assignment().size() == 2 * PARTITIONS);
        report("a pattern is resolved", consumer.assignment().stream().map(TopicPartition::topic).collect(Collectors.toCollection(TreeSet::new)));
        leave(consumer);
    }

    static void refused() {
        KafkaConsumer<String, String> wrong = join("refused", "consumer", Map.of());
        wrong.subscribe(new SubscriptionPattern("("));
        report("a pattern that is none", failure(wrong));
        running.remove(wrong);
        wrong.close();
        KafkaConsumer<String, String> other = join("refused", "consumer", Map.of("group.remote.assignor", "nothing"));
        other.subscribe(List.of("life-a"));
        report("an assignor that is none", failure(other));
        running.remove(other);
        other.close();
    }

    static void migrate() throws Exception {
        KafkaConsumer<String, String> old = join("moved", "classic", Map.of());
        old.subscribe(List.of("life-b"));
        KafkaConsumer<String, String> older = join("moved", "classic", Map.of());
        older.subscribe(List.of("life-b"));
        shared(3, 3);
        describe("moved");
        KafkaConsumer<String, String> fresh = join("moved", "consumer", Map.of());
        fresh.subscribe(List.of("life-b"));
        shared(2, 2, 2);
        report("both kinds share", sizes());
        describe("moved");
        leave(old);
        leave(older);
        shared(6);
        describe("moved");
        KafkaConsumer<String, String> again = join("moved", "classic", Map.of());
        again.subscribe(List.of("life-b"));
        shared(3, 3);
        leave(fresh);
        shared(6);
        report("back to the classic protocol", sizes());
        describe("moved");
        leave(again);
        describe("moved");
    }

    static KafkaConsumer<String, String> join(String group, String protocol, Map<String, String> more) {
        Map<String, Object> options = new HashMap<>(more);
        options.put("bootstrap.servers", bootstrap);
        options.put("group.id", group);
        options.put("group.protocol", protocol);
        options.put("auto.offset.reset", "earliest");
        options.put("enable.auto.commit", "false");
        if (protocol.equals("classic")) options.put("heartbeat.interval.ms", "100");
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(options, new StringDeserializer(), new StringDeserializer());
        running.add(consumer);
        return consumer;
    }

    static void leave(KafkaConsumer<String, String> consumer) {
        running.remove(consumer);
        consumer.close();
    }

    static void poll() {
        for (KafkaConsumer<String, String> consumer : running)
            consumer.poll(Duration.ofMillis(20)).forEach(record -> values.add(record.value()));
    }

    static void until(BooleanSupplier condition) {
        long limit = System.currentTimeMillis() + PATIENCE_MS;
        while (!condition.getAsBoolean()) {
            if (System.currentTimeMillis() > limit) throw new AssertionError("it never came to be: " + sizes());
            poll();
        }
    }

    static void shared(Integer... wanted) {
        List<Integer> expected = new ArrayList<>(List.of(wanted));
        until(() -> sizes().equals(expected)
            && running.stream().flatMap(one -> one.assignment().stream()).distinct().count() == PARTITIONS);
    }

    static List<Integer> sizes() {
        return running.stream().map(one -> one.assignment().size()).sorted().collect(Collectors.toList());
    }

    static String failure(KafkaConsumer<String, String> consumer) {
        try {
            until(() -> false);
        } catch (AssertionError | Exception error) {
            return error.getClass().getSimpleName();
        }
        return "none";
    }

    static void describe(String group) throws Exception {
        ConsumerGroupDescription found = null;
        // Members have what they are to have before they have said so.
        for (int look = 0; look < LOOKS; look++) {
            found = admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
            if (found.groupState() == GroupState.STABLE || found.groupState() == GroupState.EMPTY) break;
            poll();
        }
        report("described " + group, found.type() + " " + found.groupState() + " " + found.partitionAssignor() + " "
            + found.members().stream().map(one -> one.assignment().topicPartitions().size() + "/" + one.groupInstanceId().orElse("-")).sorted().collect(Collectors.toList()));
        GroupListing listed = admin.listGroups().all().get().stream().filter(one -> one.groupId().equals(group)).findFirst().get();
        report("listed " + group, listed.type().get() + " " + listed.groupState().get() + " " + listed.protocol());
    }

    static void produce() throws Exception {
        try (Producer<String, String> producer = new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < RECORDS; number++)
                producer.send(new ProducerRecord<>("life-a", number % PARTITIONS, null, "" + number)).get();
        }
    }

    static void report(String step, Object outcome) {
        System.out.println(step + "\t" + outcome);
    }
}
