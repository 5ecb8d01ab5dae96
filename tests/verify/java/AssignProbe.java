// What Apache Kafka's server-side assignors give, and its hash of the subscribed topics.
// Standard input: one case a line, as JSON; standard output: one answer a line.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.*;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.generated.*;
import org.apache.kafka.coordinator.group.modern.*;
import org.apache.kafka.coordinator.group.modern.consumer.*;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.image.*;

public class AssignProbe {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(answer(JSON.readTree(line)));
        }
    }

    static ObjectNode answer(JsonNode asked) {
        MetadataImage image = image(asked);
        Map<String, ConsumerGroupMember> members = new LinkedHashMap<>();
        Map<String, Assignment> targets = new HashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        Map<String, String> instances = new HashMap<>();
        for (JsonNode one : asked.get("members")) {
            ConsumerGroupMember member = member(one);
            members.put(member.memberId(), member);
            if (member.instanceId() != null) instances.put(member.instanceId(), member.memberId());
            if (one.get("target").isNull()) continue;
            Assignment target = target(one.get("target"));
            targets.put(member.memberId(), target);
            target.partitions().forEach((topic, partitions) -> partitions.forEach(partition ->
                inverted.computeIfAbsent(topic, __ -> new HashMap<>()).put(partition, member.memberId())));
        }
        Map<String, ResolvedRegularExpression> resolved = new HashMap<>();
        asked.get("resolved").fields().forEachRemaining(entry ->
            resolved.put(entry.getKey(), new ResolvedRegularExpression(new HashSet<>(strings(entry.getValue())), 1L, 1L)));
        ConsumerGroupMember changed = member(asked.get("changed"));
        ConsumerGroupPartitionAssignor assignor =
            asked.get("assignor").asText().equals("range") ? new RangeAssignor() : new UniformAssignor();
        TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder builder =
            new TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder("g", 7, assignor)
                .withMembers(members)
                .withStaticMembers(instances)
                .withSubscriptionType(asked.get("homogeneous").asBoolean() ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS)
                .withTargetAssignment(targets)
                .withInvertedTargetAssignment(inverted)
                .withMetadataImage(image)
                .withResolvedRegularExpressions(resolved)
                .addOrUpdateMember(changed.memberId(), changed);
        String previous = changed.instanceId() == null ? null : instances.get(changed.instanceId());
        if (previous != null && !previous.equals(changed.memberId())) builder.removeMember(previous);
        return summarize(asked, image, builder.build());
    }

    static ObjectNode summarize(JsonNode asked, MetadataImage image, TargetAssignmentBuilder.TargetAssignmentResult result) {
        ObjectNode summary = JSON.createObjectNode();
        ObjectNode all = summary.putObject("targets");
        result.targetAssignment().forEach((member, assignment) -> {
            ObjectNode of = all.putObject(member);
            assignment.partitions().forEach((topic, partitions) -> {
                if (partitions.isEmpty()) return;
                ArrayNode list = of.putArray(topic.toString());
                partitions.stream().sorted().forEach(list::add);
            });
        });
        ArrayNode written = summary.putArray("written");
        result.records().forEach(record -> {
            if (record.key() instanceof ConsumerGroupTargetAssignmentMemberKey key) written.add(key.memberId());
        });
        Map<String, Long> hashes = new HashMap<>();
        ObjectNode each = summary.putObject("hashes");
        for (JsonNode topic : asked.get("topics")) {
            long hash = Utils.computeTopicHash(topic.get("name").asText(), image);
            hashes.put(topic.get("name").asText(), hash);
            each.put(topic.get("name").asText(), hash);
        }
        summary.put("hash", Utils.computeGroupHash(hashes));
        return summary;
    }

    static ConsumerGroupMember member(JsonNode one) {
        return new ConsumerGroupMember.Builder(one.get("id").asText())
            .setInstanceId(one.get("instance").isNull() ? null : one.get("instance").asText())
            .setSubscribedTopicNames(strings(one.get("names")))
            .setSubscribedTopicRegex(one.get("regex").asText())
            .build();
    }

    static Assignment target(JsonNode topics) {
        List<ConsumerGroupTargetAssignmentMemberValue.TopicPartition> list = new ArrayList<>();
        topics.fields().forEachRemaining(entry -> {
            List<Integer> partitions = new ArrayList<>();
            entry.getValue().forEach(partition -> partitions.add(partition.asInt()));
            list.add(new ConsumerGroupTargetAssignmentMemberValue.TopicPartition()
                .setTopicId(Uuid.fromString(entry.getKey())).setPartitions(partitions));
        });
        return Assignment.fromRecord(new ConsumerGroupTargetAssignmentMemberValue().setTopicPartitions(list));
    }

    static MetadataImage image(JsonNode asked) {
        MetadataDelta delta = new MetadataDelta(MetadataImage.EMPTY);
        for (JsonNode broker : asked.get("brokers")) {
            delta.replay(new RegisterBrokerRecord()
                .setBrokerId(broker.get("id").asInt())
                .setRack(broker.get("rack").isNull() ? null : broker.get("rack").asText()));
        }
        for (JsonNode topic : asked.get("topics")) {
            Uuid id = Uuid.fromString(topic.get("id").asText());
            delta.replay(new TopicRecord().setTopicId(id).setName(topic.get("name").asText()));
            int number = 0;
            for (JsonNode partition : topic.get("partitions")) {
                List<Integer> replicas = new ArrayList<>();
                partition.forEach(replica -> replicas.add(replica.asInt()));
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(number++)
                    .setReplicas(replicas).setIsr(replicas).setLeader(replicas.get(0))
                    .setDirectories(Collections.nCopies(replicas.size(), Uuid.fromString("AAAAAAAAAAAAAAAAAAAAZA"))));
            }
        }
        return delta.apply(MetadataProvenance.EMPTY);
    }

    static List<String> strings(JsonNode list) {
        List<String> found = new ArrayList<>();
        list.forEach(text -> found.add(text.asText()));
        return found;
    }
}
