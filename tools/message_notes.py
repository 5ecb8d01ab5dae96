"""Descriptions that the generator adds to the message definitions: one line for each."""

from __future__ import annotations

# API name -> the request, the response.
APIS: dict[str, tuple[str, str]] = {
    "AddOffsetsToTxn": (
        "Adds the offsets of a group to a transaction.",
        "Whether the group's offsets partition was added.",
    ),
    "AddPartitionsToTxn": (
        "Partitions that a transaction will write; brokers send several transactions at once.",
        "The outcome for each partition, and from version 4 for each transaction.",
    ),
    "AddRaftVoter": ("Adds a controller to the voters of the metadata quorum.", "Whether it was added."),
    "AllocateProducerIds": (
        "A broker requests a block of producer ids.",
        "The first id of the block and its size.",
    ),
    "AlterClientQuotas": ("Quotas to set or remove, by entity.", "The outcome for each entity."),
    "AlterConfigs": (
        "The whole configuration of resources, replacing the previous one.",
        "The outcome for each resource.",
    ),
    "AlterPartition": (
        "A leader proposes a new set of in-sync replicas.",
        "The controller's decision, with the new partition epoch.",
    ),
    "AlterPartitionReassignments": (
        "Target replicas of partitions; null cancels a reassignment.",
        "The outcome for each partition.",
    ),
    "AlterReplicaLogDirs": (
        "Replicas to move to another log directory of the same broker.",
        "The outcome for each replica.",
    ),
    "AlterShareGroupOffsets": (
        "New start offsets of an empty share group.",
        "The outcome for each partition.",
    ),
    "AlterUserScramCredentials": (
        "SCRAM credentials to delete, insert or replace.",
        "The outcome for each user.",
    ),
    "ApiVersions": (
        "Requests the supported API versions; the first request of most clients.",
        "Every API with its versions, and the features of the cluster.",
    ),
    "AssignReplicasToDirs": (
        "A broker reports which directory holds which replica.",
        "The outcome for each replica.",
    ),
    "BeginQuorumEpoch": (
        "A newly elected leader of the quorum announces itself.",
        "The receiver's view of leader and epoch.",
    ),
    "BrokerHeartbeat": (
        "A broker's heartbeat, with its metadata offset and whether it wants to be fenced or shut down.",
        "Whether the broker is fenced, caught up and allowed to shut down.",
    ),
    "BrokerRegistration": (
        "A broker registers with its endpoints, features and directories.",
        "The epoch of the registration.",
    ),
    "ConsumerGroupDescribe": (
        "The consumer groups (KIP-848) to describe.",
        "State, members, subscriptions and assignments of each group.",
    ),
    "ConsumerGroupHeartbeat": (
        "The heartbeat of a member of a consumer group (KIP-848), with its subscription and partitions.",
        "The member's epoch, the heartbeat interval and, if changed, its assignment.",
    ),
    "ControlledShutdown": (
        "A broker is about to shut down and requests new leaders (ZooKeeper mode).",
        "The partitions that it still leads.",
    ),
    "ControllerRegistration": (
        "A controller registers with its endpoints and features.",
        "Whether the controller is registered.",
    ),
    "CreateAcls": ("ACLs to add.", "The outcome for each ACL."),
    "CreateDelegationToken": (
        "Requests a token for the caller or, as a superuser, for another owner.",
        "The token with its secret and its timestamps.",
    ),
    "CreatePartitions": (
        "New partition counts of topics, with optional assignments.",
        "The outcome for each topic.",
    ),
    "CreateTopics": (
        "Topics to create, with partition counts or assignments.",
        "The outcome for each topic, with its id and configuration.",
    ),
    "DeleteAcls": ("Filters; every ACL that matches one is deleted.", "The ACLs that each filter deleted."),
    "DeleteGroups": ("Empty groups to delete.", "The outcome for each group."),
    "DeleteRecords": (
        "Partitions and the offsets before which records are deleted.",
        "The new log start offset of each partition.",
    ),
    "DeleteShareGroupOffsets": (
        "Topics whose offsets to delete from a share group.",
        "The outcome for each topic.",
    ),
    "DeleteShareGroupState": (
        "Partitions whose share state to delete.",
        "The outcome for each partition.",
    ),
    "DeleteTopics": ("Topics to delete, by name or id.", "The outcome for each topic."),
    "DescribeAcls": ("A filter for ACLs.", "The matching ACLs, by resource."),
    "DescribeClientQuotas": ("A filter for quota entities.", "The matching entities and their quotas."),
    "DescribeCluster": (
        "Requests the nodes of the cluster.",
        "The brokers or controllers, the cluster's id and its controller.",
    ),
    "DescribeConfigs": (
        "Resources and options to describe; null means all.",
        "Every option with value, source, synonyms and type.",
    ),
    "DescribeDelegationToken": (
        "The owners whose tokens to list.",
        "The tokens with owner, renewers and timestamps.",
    ),
    "DescribeGroups": (
        "The classic groups to describe.",
        "State, protocol and members of each group.",
    ),
    "DescribeLogDirs": (
        "Partitions to describe; null means all.",
        "The log directories with their sizes and replicas.",
    ),
    "DescribeProducers": (
        "Partitions whose active producers to describe.",
        "The producers of each partition with their sequence and open transaction.",
    ),
    "DescribeQuorum": (
        "Requests the state of the metadata quorum.",
        "Leader, epoch, high watermark and the log end offset of each replica.",
    ),
    "DescribeShareGroupOffsets": (
        "Share groups and partitions to describe.",
        "Start offsets by group and partition.",
    ),
    "DescribeTopicPartitions": (
        "Topics to describe, page by page.",
        "The partitions of the topics and the cursor of the next page.",
    ),
    "DescribeTransactions": ("Transactional ids to describe.", "State, producer and partitions of each."),
    "DescribeUserScramCredentials": (
        "Users to describe; null means all.",
        "The mechanisms and iterations of each user, never the secrets.",
    ),
    "ElectLeaders": (
        "Partitions for which to elect the preferred or, uncleanly, any replica.",
        "The outcome for each partition.",
    ),
    "EndQuorumEpoch": (
        "A leader of the quorum resigns and names its successors.",
        "The receiver's view of leader and epoch.",
    ),
    "EndTxn": (
        "A producer commits or aborts its transaction.",
        "Whether it succeeded; from version 5 with the epoch for the next transaction.",
    ),
    "Envelope": (
        "A client's request, forwarded by a broker with the client's principal.",
        "The controller's response, to be returned to the client.",
    ),
    "ExpireDelegationToken": (
        "Sets or shortens the expiry time of a token.",
        "The expiry time of the token.",
    ),
    "Fetch": (
        "Partitions to read from, by consumers, followers and the metadata quorum.",
        "Record batches and watermarks of each partition.",
    ),
    "FetchSnapshot": (
        "A part of a snapshot of the metadata log.",
        "Bytes of the snapshot from the requested position.",
    ),
    "FindCoordinator": (
        "Requests the coordinators of groups, transactions or share states.",
        "The coordinator of each key.",
    ),
    "GetTelemetrySubscriptions": (
        "Requests the metrics that the cluster subscribes to (KIP-714).",
        "The metrics, the push interval, and the accepted compression types.",
    ),
    "Heartbeat": (
        "The heartbeat of a member of a classic group.",
        "Success, or that the group is rebalancing.",
    ),
    "IncrementalAlterConfigs": (
        "Options to set, delete, append to or subtract from.",
        "The outcome for each resource.",
    ),
    "InitProducerId": (
        "A producer requests its id and epoch; a transactional one fences its predecessors.",
        "The producer's id and epoch.",
    ),
    "InitializeShareGroupState": (
        "Partitions that a share group starts to read.",
        "The outcome for each partition.",
    ),
    "JoinGroup": (
        "A member joins a classic group, with its supported assignors.",
        "The generation, the chosen assignor and, for the leader, all members.",
    ),
    "LeaderAndIsr": (
        "The controller assigns leaders and followers to a broker (ZooKeeper mode).",
        "The outcome for each partition.",
    ),
    "LeaveGroup": ("Members leave a classic group.", "The outcome for each member."),
    "ListConfigResources": (
        "Requests the resources that have a configuration.",
        "The resources, by type and name.",
    ),
    "ListGroups": ("Groups of this broker, by state and type.", "The groups with protocol, state and type."),
    "ListOffsets": (
        "Offsets by timestamp or by a special timestamp such as latest.",
        "Offset, timestamp and leader epoch for each partition.",
    ),
    "ListPartitionReassignments": (
        "Requests the active reassignments.",
        "The active reassignments, with the added and removed replicas.",
    ),
    "ListTransactions": (
        "Transactions of this coordinator, by state, producer, age and id.",
        "The transactions that match.",
    ),
    "Metadata": (
        "Requests the metadata of topics; null means all topics.",
        "Brokers, controller, and the leaders and replicas of every partition.",
    ),
    "OffsetCommit": ("A member commits its offsets.", "The outcome for each partition."),
    "OffsetDelete": ("Partitions whose committed offsets to delete.", "The outcome for each partition."),
    "OffsetFetch": (
        "Requests the committed offsets of groups.",
        "Committed offsets with epoch and metadata, by group and partition.",
    ),
    "OffsetForLeaderEpoch": (
        "Requests the end offsets of leader epochs.",
        "The end offset of each epoch, to find where logs diverge.",
    ),
    "Produce": (
        "Record batches to append, by partition.",
        "The base offset of each partition's batches, or the error.",
    ),
    "PushTelemetry": (
        "Metrics of a client (KIP-714).",
        "Whether the metrics were accepted.",
    ),
    "ReadShareGroupState": (
        "Partitions whose share state a leader needs.",
        "The state batches of each partition.",
    ),
    "ReadShareGroupStateSummary": (
        "Partitions whose share state to read without its batches.",
        "Epochs and start offset of each partition.",
    ),
    "RemoveRaftVoter": ("Removes a controller from the voters.", "Whether it was removed."),
    "RenewDelegationToken": ("Extends the expiry time of a token.", "The new expiry time of the token."),
    "SaslAuthenticate": ("Bytes of the client's side of SASL.", "Bytes of the server's side."),
    "SaslHandshake": (
        "The SASL mechanism the client has chosen.",
        "The mechanisms that the server supports.",
    ),
    "ShareAcknowledge": (
        "A member of a share group accepts, releases or rejects records.",
        "The outcome for each partition.",
    ),
    "ShareFetch": (
        "A member of a share group fetches records, and acknowledges earlier ones.",
        "Records, and which of them were acquired for this member.",
    ),
    "ShareGroupDescribe": (
        "The share groups to describe.",
        "State, members and assignments of each group.",
    ),
    "ShareGroupHeartbeat": (
        "The heartbeat of a member of a share group, with its subscription.",
        "The member's epoch, the heartbeat interval and, if changed, its assignment.",
    ),
    "StopReplica": (
        "The controller stops, and optionally deletes, replicas of a broker (ZooKeeper mode).",
        "The outcome for each partition.",
    ),
    "StreamsGroupDescribe": (
        "The streams groups (KIP-1071) to describe.",
        "Topology, members and tasks of each group.",
    ),
    "StreamsGroupHeartbeat": (
        "The heartbeat of a member of a streams group (KIP-1071), with its topology and tasks.",
        "The member's epoch, the heartbeat interval and, if changed, its tasks.",
    ),
    "SyncGroup": (
        "The leader sends the assignments of a generation; all members wait for theirs.",
        "The member's own assignment.",
    ),
    "TxnOffsetCommit": (
        "Offsets that become visible when the transaction commits.",
        "The outcome for each partition.",
    ),
    "UnregisterBroker": ("Unregisters a broker.", "Whether it was unregistered."),
    "UpdateFeatures": ("New levels of features.", "The outcome, by feature before version 2."),
    "UpdateMetadata": (
        "The controller sends the state of partitions and brokers to a broker (ZooKeeper mode).",
        "Whether the broker accepted it.",
    ),
    "UpdateRaftVoter": (
        "A voter has new endpoints or versions.",
        "Whether they were accepted, and the current leader.",
    ),
    "Vote": (
        "A candidate, or from version 2 a prospective one, requests a vote.",
        "Whether the vote was granted.",
    ),
    "WriteShareGroupState": (
        "Share state that a leader persists.",
        "The outcome for each partition.",
    ),
    "WriteTxnMarkers": (
        "A transaction coordinator sends the markers to write to partitions.",
        "The outcome for each partition.",
    ),
}

# APIs that only brokers and controllers may use.
CLUSTER_ACTIONS = {
    "LeaderAndIsr",
    "StopReplica",
    "UpdateMetadata",
    "ControlledShutdown",
    "WriteTxnMarkers",
    "Vote",
    "BeginQuorumEpoch",
    "EndQuorumEpoch",
    "DescribeQuorum",
    "AlterPartition",
    "UpdateFeatures",
    "Envelope",
    "BrokerRegistration",
    "BrokerHeartbeat",
    "AllocateProducerIds",
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
}
# APIs that a broker forwards to the controller (KIP-590).
FORWARDED = {
    "CreateTopics",
    "DeleteTopics",
    "CreateAcls",
    "DeleteAcls",
    "AlterConfigs",
    "CreatePartitions",
    "CreateDelegationToken",
    "RenewDelegationToken",
    "ExpireDelegationToken",
    "ElectLeaders",
    "IncrementalAlterConfigs",
    "AlterPartitionReassignments",
    "ListPartitionReassignments",
    "AlterClientQuotas",
    "AlterUserScramCredentials",
    "DescribeQuorum",
    "UpdateFeatures",
    "UnregisterBroker",
    "AllocateProducerIds",
    "AddRaftVoter",
    "RemoveRaftVoter",
}

HEADERS: dict[str, str] = {
    "RequestHeader": "Precedes every request: API key, version, correlation id and client id.",
    "ResponseHeader": "Precedes every response: the correlation id of its request.",
}

# File under records/ -> its contents.
RECORD_FILES: dict[str, str] = {
    "metadata": "Records of the metadata log: every change of the cluster is one of these.",
    "control": "Values of control records: leadership, snapshots, voters, transaction markers.",
    "group": "Records of classic groups and of committed offsets.",
    "consumer_group": "Records of consumer groups (KIP-848).",
    "share_group": "Records of share groups (KIP-932).",
    "streams_group": "Records of streams groups (KIP-1071).",
    "share_state": "Records of the share coordinator: the state of each share partition.",
    "transaction_log": "Records of the transaction coordinator.",
    "producer_snapshot": "The file that stores the producers of a log.",
    "quorum_state": "The file that stores a voter's epoch and vote.",
    "remote_log": "Records about segments in remote storage (KIP-405).",
    "consumer_protocol": "The metadata that members of a classic consumer group exchange.",
    "principal": "The principal inside a forwarded request.",
}

# Record name -> its description.
RECORDS: dict[str, str] = {
    "AbortTransactionRecord": "The records since the matching begin are discarded.",
    "AccessControlEntryRecord": "An ACL was created.",
    "BeginTransactionRecord": "The following records take effect only with the matching end (KIP-868).",
    "BrokerRegistrationChangeRecord": "A broker is fenced, unfenced, shutting down or has other directories.",
    "ClearElrRecord": "Clears the eligible leader replicas of a topic, or of all topics.",
    "ClientQuotaRecord": "A quota of an entity was set or removed.",
    "ConfigRecord": "An option of a resource was set, or with null removed.",
    "ConsumerGroupCurrentMemberAssignmentKey": "The group and member of a current assignment.",
    "ConsumerGroupCurrentMemberAssignmentValue": "The partitions that a member owns and still has to revoke.",
    "ConsumerGroupMemberMetadataKey": "The group and member.",
    "ConsumerGroupMemberMetadataValue": "A member's client, host and subscription.",
    "ConsumerGroupMetadataKey": "The group.",
    "ConsumerGroupMetadataValue": "The epoch of a group.",
    "ConsumerGroupPartitionMetadataKey": "The group of the partition counts.",
    "ConsumerGroupPartitionMetadataValue": "The subscribed topics as the group last saw them.",
    "ConsumerGroupRegularExpressionKey": "The group and the subscription pattern.",
    "ConsumerGroupRegularExpressionValue": "The topics that matched a subscription pattern.",
    "ConsumerGroupTargetAssignmentMemberKey": "The group and member of a target assignment.",
    "ConsumerGroupTargetAssignmentMemberValue": "The partitions that a member should own.",
    "ConsumerGroupTargetAssignmentMetadataKey": "The group of a target assignment epoch.",
    "ConsumerGroupTargetAssignmentMetadataValue": "The epoch that the target assignments belong to.",
    "ConsumerProtocolAssignment": "The partitions a leader gives to a member.",
    "ConsumerProtocolSubscription": "A member's subscribed topics, and the partitions that it owns.",
    "DefaultPrincipalData": "Type and name of a principal, and whether it authenticated with a token.",
    "DelegationTokenRecord": "A delegation token was created.",
    "EndTransactionRecord": "The records since the matching begin take effect.",
    "EndTxnMarker": "The end of a transaction in a partition; the key says whether it committed.",
    "FeatureLevelRecord": "A feature has a new level.",
    "FenceBrokerRecord": "A broker lost its lease (replaced by BrokerRegistrationChangeRecord).",
    "GroupMetadataKey": "The classic group.",
    "GroupMetadataValue": "Generation, protocol and members of a classic group.",
    "KRaftVersionRecord": "The kraft.version of the quorum.",
    "LeaderChangeMessage": "A new leader of the quorum and who voted for it.",
    "LegacyOffsetCommitKey": "The group and partition, in the oldest format.",
    "LegacyOffsetCommitValue": "A committed offset, in the oldest format.",
    "NoOpRecord": "Changes nothing; it only advances the log.",
    "OffsetCommitKey": "The group and partition.",
    "OffsetCommitValue": "A committed offset.",
    "PartitionChangeRecord": "Changes of a partition; unchanged fields are absent.",
    "PartitionRecord": "A partition with its replicas and leader.",
    "ProducerIdsRecord": "Producer ids below the given one are allocated.",
    "ProducerSnapshot": "All producers of a log with their sequences and open transactions.",
    "QuorumStateData": "Epoch, vote, leader and, in version 0, voters.",
    "RegisterBrokerRecord": "A broker is registered.",
    "RegisterControllerRecord": "A controller is registered.",
    "RemoteLogSegmentMetadataRecord": "A segment is being copied to remote storage, or was.",
    "RemoteLogSegmentMetadataSnapshotRecord": "The state of a remote segment in a snapshot.",
    "RemoteLogSegmentMetadataUpdateRecord": "A remote segment changed its state.",
    "RemotePartitionDeleteMetadataRecord": "The deletion of a partition's remote segments.",
    "RemoveAccessControlEntryRecord": "An ACL was deleted.",
    "RemoveDelegationTokenRecord": "A delegation token was removed.",
    "RemoveTopicRecord": "A topic and its partitions were deleted.",
    "RemoveUserScramCredentialRecord": "A user's SCRAM credential was deleted.",
    "ShareGroupCurrentMemberAssignmentKey": "The group and member of a current assignment.",
    "ShareGroupCurrentMemberAssignmentValue": "The partitions that a member reads.",
    "ShareGroupMemberMetadataKey": "The group and member.",
    "ShareGroupMemberMetadataValue": "A member's client, host and subscription.",
    "ShareGroupMetadataKey": "The group.",
    "ShareGroupMetadataValue": "The epoch of a group.",
    "ShareGroupStatePartitionMetadataKey": "The group of the share partitions.",
    "ShareGroupStatePartitionMetadataValue": "Share partitions: being initialised, in use, being deleted.",
    "ShareGroupTargetAssignmentMemberKey": "The group and member of a target assignment.",
    "ShareGroupTargetAssignmentMemberValue": "The partitions that a member should read.",
    "ShareGroupTargetAssignmentMetadataKey": "The group of a target assignment epoch.",
    "ShareGroupTargetAssignmentMetadataValue": "The epoch that the target assignments belong to.",
    "ShareSnapshotKey": "The group and partition of a snapshot.",
    "ShareSnapshotValue": "The whole state of a share partition.",
    "ShareUpdateKey": "The group and partition of an update.",
    "ShareUpdateValue": "Changes of a share partition since its snapshot.",
    "SnapshotFooterRecord": "The last record of a snapshot.",
    "SnapshotHeaderRecord": "The first record of a snapshot, with the timestamp of its last record.",
    "StreamsGroupCurrentMemberAssignmentKey": "The group and member of current tasks.",
    "StreamsGroupCurrentMemberAssignmentValue": "The tasks that a member has and still has to revoke.",
    "StreamsGroupMemberMetadataKey": "The group and member.",
    "StreamsGroupMemberMetadataValue": "A member's client, process and endpoint.",
    "StreamsGroupMetadataKey": "The group.",
    "StreamsGroupMetadataValue": "The epoch of a group.",
    "StreamsGroupTargetAssignmentMemberKey": "The group and member of target tasks.",
    "StreamsGroupTargetAssignmentMemberValue": "The tasks a member should have.",
    "StreamsGroupTargetAssignmentMetadataKey": "The group of a target assignment epoch.",
    "StreamsGroupTargetAssignmentMetadataValue": "The epoch that the target tasks belong to.",
    "StreamsGroupTopologyKey": "The group of a topology.",
    "StreamsGroupTopologyValue": "The subtopologies of a group with their topics.",
    "TopicRecord": "A topic was created.",
    "TransactionLogKey": "The key of a transactional id.",
    "TransactionLogValue": "The state of a transaction.",
    "UnfenceBrokerRecord": "A broker has its lease (replaced by BrokerRegistrationChangeRecord).",
    "UnregisterBrokerRecord": "A broker is no longer registered.",
    "UserScramCredentialRecord": "A user's SCRAM credential was created.",
    "VotersRecord": "The voters of the quorum with their directories and endpoints.",
    "ZkMigrationStateRecord": "The state of the migration from ZooKeeper to KRaft.",
}
