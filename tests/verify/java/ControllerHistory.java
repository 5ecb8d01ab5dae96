// What Apache Kafka's own controller decides, record by record: registrations, heartbeats, ISR changes, elections,
// reassignments, directories.  Standard input: one history a line, a JSON array of steps; standard output: one line each.
// In the package of the controller, most of which is not public: compile it with javac before it runs.
package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.*;
import java.util.function.Supplier;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.metadata.*;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.controller.metrics.QuorumControllerMetrics;
import org.apache.kafka.metadata.*;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.timeline.SnapshotRegistry;

public class ControllerHistory {
    static final ObjectMapper JSON = new ObjectMapper();
    // Before each line of ours: the logger writes to the same output.
    static final String MARK = "history ";

    static class TestTime implements Time {
        long nowNs = 0;
        public long milliseconds() { return nowNs / 1_000_000; }
        public long nanoseconds() { return nowNs; }
        public void sleep(long ms) { nowNs += ms * 1_000_000; }
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) { }
    }

    final TestTime time = new TestTime();
    final LogContext context = new LogContext();
    final SnapshotRegistry registry = new SnapshotRegistry(context);
    final FeatureControlManager features;
    final ConfigurationControlManager configs;
    final ClusterControlManager cluster;
    final ReplicationControlManager replication;
    long endOffset;

    ControllerHistory(JsonNode start) {
        endOffset = start.get("endOffset").asLong();
        features = new FeatureControlManager.Builder().setLogContext(context).setSnapshotRegistry(registry)
            .setQuorumFeatures(new QuorumFeatures(1, QuorumFeatures.defaultSupportedFeatureMap(true), List.of(1)))
            .setKRaftVersionAccessor(new KRaftVersionAccessor() {
                public KRaftVersion kraftVersion() { return KRaftVersion.KRAFT_VERSION_0; }
                public void upgradeKRaftVersion(int epoch, KRaftVersion version, boolean validateOnly) { }
            }).build();
        configs = new ConfigurationControlManager.Builder().setLogContext(context).setSnapshotRegistry(registry)
            .setKafkaConfigSchema(kafka.server.KafkaRaftServer.configSchema()).setFeatureControl(features)
            .setStaticConfig(Map.of()).setNodeId(1).build();
        cluster = new ClusterControlManager.Builder().setLogContext(context).setSnapshotRegistry(registry).setTime(time)
            .setClusterId(start.get("clusterId").asText())
            .setSessionTimeoutNs(start.get("sessionTimeoutMs").asLong() * 1_000_000)
            .setReplicaPlacer(new StripedReplicaPlacer(new Random(1))).setFeatureControlManager(features)
            .setBrokerShutdownHandler(this::brokerShutdown)
            .setMetrics(new QuorumControllerMetrics(Optional.empty(), time, 9000)).build();
        replication = new ReplicationControlManager.Builder().setLogContext(context).setSnapshotRegistry(registry)
            .setConfigurationControl(configs).setClusterControl(cluster).setFeatureControl(features).build();
        cluster.activate();
    }

    void brokerShutdown(int brokerId, boolean isClean, List<ApiMessageAndVersion> records) {
        replication.handleBrokerShutdown(brokerId, isClean, records);
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode steps = JSON.readTree(line);
            ControllerHistory history = new ControllerHistory(steps.get(0));
            ArrayNode results = JSON.createArrayNode();
            for (int i = 1; i < steps.size(); i++) results.add(history.step(steps.get(i)));
            System.out.println(MARK + results);
        }
    }

    ObjectNode step(JsonNode step) {
        ObjectNode result = JSON.createObjectNode();
        time.nowNs = step.get("nowNs").asLong();
        ControllerResult<?> decided;
        try {
            decided = decide(step);
        } catch (Exception error) {
            result.put("error", Errors.forException(error).code());
            return result;
        }
        ArrayNode records = result.putArray("records");
        for (ApiMessageAndVersion record : decided.records()) {
            ObjectNode written = records.addObject();
            written.put("type", MetadataRecordType.fromId(record.message().apiKey()).name());
            written.put("version", record.version());
            written.set("data", MetadataJsonConverters.writeJson(record.message(), record.version()));
            replay(record.message(), endOffset++);
        }
        if (decided.response() instanceof BrokerHeartbeatReply reply) {
            result.put("reply", reply.isCaughtUp() + " " + reply.isFenced() + " " + reply.shouldShutDown());
            // A record about a broker's registration drops what the heartbeat said; ours keeps it.
            JsonNode heartbeat = step.get("request");
            cluster.heartbeatManager().touch(heartbeat.get("brokerId").asInt(), reply.isFenced(),
                heartbeat.get("currentMetadataOffset").asLong());
            // After a granted shutdown the next process of a broker may register at once in ours.
            if (reply.shouldShutDown()) endSession(step.get("request"));
            if (reply.inControlledShutdown())
                cluster.heartbeatManager().maybeUpdateControlledShutdownOffset(
                    step.get("request").get("brokerId").asInt(), endOffset - 1);
        } else if (decided.response() instanceof BrokerRegistrationReply reply) {
            result.put("reply", String.valueOf(reply.epoch()));
        } else if (decided.response() instanceof AlterPartitionResponseData reply) {
            result.set("reply", AlterPartitionResponseDataJsonConverter.write(reply, (short) 3));
        } else if (decided.response() instanceof ElectLeadersResponseData reply) {
            result.set("reply", ElectLeadersResponseDataJsonConverter.write(reply, (short) 2));
        } else if (decided.response() instanceof AlterPartitionReassignmentsResponseData reply) {
            result.set("reply", AlterPartitionReassignmentsResponseDataJsonConverter.write(reply, (short) 1));
        } else if (decided.response() instanceof ListPartitionReassignmentsResponseData reply) {
            result.set("reply", ListPartitionReassignmentsResponseDataJsonConverter.write(reply, (short) 0));
        } else if (decided.response() instanceof AssignReplicasToDirsResponseData reply) {
            result.set("reply", AssignReplicasToDirsResponseDataJsonConverter.write(reply, (short) 0));
        }
        return result;
    }

    boolean fencesNone(List<ApiMessageAndVersion> records) {
        return records.stream().map(ApiMessageAndVersion::message)
            .filter(record -> record instanceof BrokerRegistrationChangeRecord)
            .allMatch(record -> cluster.registration(((BrokerRegistrationChangeRecord) record).brokerId()).fenced());
    }

    void endSession(JsonNode heartbeat) {
        try {
            var field = BrokerHeartbeatTracker.class.getDeclaredField("contactTimes");
            field.setAccessible(true);
            ((Map<?, ?>) field.get(cluster.heartbeatManager().tracker())).remove(
                new BrokerIdAndEpoch(heartbeat.get("brokerId").asInt(), heartbeat.get("brokerEpoch").asLong()));
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    ControllerResult<?> decide(JsonNode step) {
        short version = (short) step.get("version").asInt();
        JsonNode request = step.get("request");
        switch (step.get("kind").asText()) {
            case "replay":
                for (JsonNode record : request) {
                    short type = MetadataRecordType.valueOf(record.get("type").asText()).id();
                    short recordVersion = (short) record.get("version").asInt();
                    replay(MetadataJsonConverters.readJson(record.get("data"), type, recordVersion), endOffset++);
                }
                return ControllerResult.of(List.of(), null);
            case "failover":
                cluster.deactivate();
                cluster.activate();
                return ControllerResult.of(List.of(), null);
            case "fence": {
                // One broker a call.  Sessions of fenced brokers end too: it writes that again, ours does not.
                ControllerResult<Boolean> result = replication.maybeFenceOneStaleBroker();
                while (result.response() && fencesNone(result.records())) result = replication.maybeFenceOneStaleBroker();
                return fencesNone(result.records()) ? ControllerResult.of(List.of(), false) : result;
            }
            case "balance": return replication.maybeBalancePartitionLeaders();
            case "unclean": return replication.maybeElectUncleanLeaders();
            case "BrokerRegistrationRequest": {
                Map<String, Short> levels = new HashMap<>(features.finalizedFeatures(Long.MAX_VALUE).featureMap());
                levels.put(KRaftVersion.FEATURE_NAME, KRaftVersion.KRAFT_VERSION_0.featureLevel());
                return cluster.registerBroker(BrokerRegistrationRequestDataJsonConverter.read(request, version), endOffset,
                    new FinalizedControllerFeatures(levels, Long.MAX_VALUE), version >= 3);
            }
            case "BrokerHeartbeatRequest": {
                BrokerHeartbeatRequestData data = BrokerHeartbeatRequestDataJsonConverter.read(request, version);
                cluster.trackBrokerHeartbeat(data.brokerId(), data.brokerEpoch());
                OptionalLong offset = cluster.registerBrokerRecordOffset(data.brokerId());
                if (offset.isEmpty()) throw new org.apache.kafka.common.errors.StaleBrokerEpochException("not registered");
                return replication.processBrokerHeartbeat(data, offset.getAsLong());
            }
            case "AlterPartitionRequest":
                return replication.alterPartition(new ControllerRequestContext(
                    new RequestHeaderData().setRequestApiVersion(version), KafkaPrincipal.ANONYMOUS, OptionalLong.empty()),
                    AlterPartitionRequestDataJsonConverter.read(request, version));
            case "ElectLeadersRequest":
                return replication.electLeaders(ElectLeadersRequestDataJsonConverter.read(request, version));
            case "AlterPartitionReassignmentsRequest":
                return replication.alterPartitionReassignments(
                    AlterPartitionReassignmentsRequestDataJsonConverter.read(request, version));
            case "ListPartitionReassignmentsRequest":
                return ControllerResult.of(List.of(), replication.listPartitionReassignments(
                    ListPartitionReassignmentsRequestDataJsonConverter.read(request, version).topics(), Long.MAX_VALUE));
            case "AssignReplicasToDirsRequest":
                return replication.handleAssignReplicasToDirs(AssignReplicasToDirsRequestDataJsonConverter.read(request, version));
            case "UnregisterBrokerRequest":
                return replication.unregisterBroker(request.get("brokerId").asInt());
            default: throw new IllegalArgumentException(step.get("kind").asText());
        }
    }

    void replay(ApiMessage record, long offset) {
        if (record instanceof RegisterBrokerRecord r) cluster.replay(r, offset);
        else if (record instanceof UnregisterBrokerRecord r) cluster.replay(r);
        else if (record instanceof BrokerRegistrationChangeRecord r) cluster.replay(r);
        else if (record instanceof FenceBrokerRecord r) cluster.replay(r);
        else if (record instanceof UnfenceBrokerRecord r) cluster.replay(r);
        else if (record instanceof TopicRecord r) replication.replay(r);
        else if (record instanceof PartitionRecord r) replication.replay(r);
        else if (record instanceof PartitionChangeRecord r) replication.replay(r);
        else if (record instanceof RemoveTopicRecord r) replication.replay(r);
        else if (record instanceof ClearElrRecord r) replication.replay(r);
        else if (record instanceof ConfigRecord r) configs.replay(r);
        else if (record instanceof FeatureLevelRecord r) features.replay(r);
    }
}
