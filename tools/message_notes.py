"""What the generator knows of messages beyond their definitions: a line about each, in our own words."""

from __future__ import annotations

# API name -> what the request asks, what the response tells.
APIS: dict[str, tuple[str, str]] = {
    "AddOffsetsToTxn": (
        "A transaction will also commit offsets of this group.",
        "The group's offsets partition is part of the transaction, or why not.",
    ),
    "AddPartitionsToTxn": (
        "Partitions that a transaction is about to write; brokers ask for several transactions at once.",
        "The outcome for each partition, and from version 4 for each transaction.",
    ),
    "AddRaftVoter": ("A controller wants to vote in the metadata quorum.", "Whether it may vote now."),
    "AllocateProducerIds": (
        "A broker asks for a block of producer ids to hand out.",
        "The first id of the block and its size.",
    ),
    "AlterClientQuotas": ("Quotas to set or remove, by entity.", "The outcome for each entity."),
    "AlterConfigs": (
        "The whole configuration of resources, replacing what was there.",
        "The outcome for each resource.",
    ),
    "AlterPartition": (
        "A leader proposes a new set of in-sync replicas.",
        "What the controller decided, with the new partition epoch.",
    ),
    "AlterPartitionReassignments": (
        "Target replicas of partitions; null stops a move under way.",
        "The outcome for each partition.",
    ),
    "AlterReplicaLogDirs": (
        "Replicas to be moved to another log directory of the same broker.",
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
        "Which versions does this node speak?  The first request of most clients.",
        "Every API with its versions, and the features of the cluster.",
    ),
    "AssignReplicasToDirs": (
        "A broker reports which directory holds which replica.",
        "The outcome for each replica.",
    ),
    "BeginQuorumEpoch": (
        "A newly elected leader of the quorum makes itself known.",
        "The receiver's view of leader and epoch.",
    ),
    "BrokerHeartbeat": (
        "A broker says that it lives, how far it has read metadata and what it wishes.",
        "Whether the broker is fenced, caught up and allowed to stop.",
    ),
    "BrokerRegistration": (
        "A broker announces itself, its endpoints, features and directories.",
        "The epoch under which the broker is now known.",
    ),
    "ConsumerGroupDescribe": (
        "Which consumer groups (KIP-848) to describe.",
        "State, members, subscriptions and assignments of each group.",
    ),
    "ConsumerGroupHeartbeat": (
        "A member of a consumer group (KIP-848) lives, and what it subscribes to and owns.",
        "The member's epoch, the next heartbeat and, when changed, its assignment.",
    ),
    "ControlledShutdown": (
        "A broker is about to stop and wants its leaderships moved (ZooKeeper mode).",
        "The partitions it still leads.",
    ),
    "ControllerRegistration": (
        "A controller announces itself, its endpoints and features.",
        "Whether the controller is registered.",
    ),
    "CreateAcls": ("Access rules to add.", "The outcome for each rule."),
    "CreateDelegationToken": (
        "A token for the caller or, as superuser, for another owner.",
        "The token with its secret and its times.",
    ),
    "CreatePartitions": (
        "New partition counts of topics, with the replicas if the caller wants to choose.",
        "The outcome for each topic.",
    ),
    "CreateTopics": (
        "Topics to create, by count or by hand-made assignment.",
        "The outcome for each topic, with its id and configuration.",
    ),
    "DeleteAcls": ("Filters; every access rule that matches one is removed.", "What each filter removed."),
    "DeleteGroups": ("Empty groups to be forgotten.", "The outcome for each group."),
    "DeleteRecords": (
        "Partitions and the offset below which their records may go.",
        "The new start of each partition.",
    ),
    "DeleteShareGroupOffsets": (
        "Topics whose offsets a share group should forget.",
        "The outcome for each topic.",
    ),
    "DeleteShareGroupState": (
        "Partitions whose share state can be dropped.",
        "The outcome for each partition.",
    ),
    "DeleteTopics": ("Topics to delete, by name or id.", "The outcome for each topic."),
    "DescribeAcls": ("A filter for access rules.", "The rules that match, by resource."),
    "DescribeClientQuotas": ("A filter for quota entities.", "The matching entities and their quotas."),
    "DescribeCluster": (
        "Who belongs to this cluster?",
        "The brokers or controllers, the cluster's id and its controller.",
    ),
    "DescribeConfigs": (
        "Resources and the options of interest; null means all.",
        "Every option with value, source, synonyms and type.",
    ),
    "DescribeDelegationToken": ("Whose tokens to list.", "The tokens with owner, renewers and times."),
    "DescribeGroups": (
        "Which classic groups to describe.",
        "State, protocol and members of each group.",
    ),
    "DescribeLogDirs": (
        "Partitions of interest; null means all.",
        "The log directories with their sizes and replicas.",
    ),
    "DescribeProducers": (
        "Partitions whose active producers are of interest.",
        "The producers of each partition with their sequence and open transaction.",
    ),
    "DescribeQuorum": (
        "How is the metadata quorum?",
        "Leader, epoch, high watermark and how far each replica is.",
    ),
    "DescribeShareGroupOffsets": (
        "Share groups and partitions of interest.",
        "Start offsets by group and partition.",
    ),
    "DescribeTopicPartitions": (
        "Topics to describe, page by page.",
        "The partitions of the topics and where the next page begins.",
    ),
    "DescribeTransactions": ("Transactional ids of interest.", "State, producer and partitions of each."),
    "DescribeUserScramCredentials": (
        "Users of interest; null means all.",
        "Which mechanisms each user has, with iterations, never the secrets.",
    ),
    "ElectLeaders": (
        "Partitions whose preferred, or else any, replica should lead.",
        "The outcome for each partition.",
    ),
    "EndQuorumEpoch": (
        "A leader of the quorum resigns and names its successors.",
        "The receiver's view of leader and epoch.",
    ),
    "EndTxn": (
        "A producer commits or aborts its transaction.",
        "Whether it is done; from version 5 with the epoch for the next one.",
    ),
    "Envelope": (
        "A client's request, forwarded by a broker together with who sent it.",
        "The controller's answer, to be passed back.",
    ),
    "ExpireDelegationToken": ("Let a token end at a time or now.", "When the token ends."),
    "Fetch": (
        "Partitions to read from, by consumers, followers and the metadata quorum.",
        "Record batches and watermarks of each partition.",
    ),
    "FetchSnapshot": (
        "A part of a snapshot of the metadata log.",
        "Bytes of the snapshot from the position asked for.",
    ),
    "FindCoordinator": (
        "Which broker coordinates these groups, transactions or share states?",
        "The coordinator of each key.",
    ),
    "GetTelemetrySubscriptions": (
        "Which metrics does the cluster want of this client (KIP-714)?",
        "The metrics, how often, and how they may be compressed.",
    ),
    "Heartbeat": (
        "A member of a classic group lives.",
        "All is well, or the group is rebalancing.",
    ),
    "IncrementalAlterConfigs": (
        "Options to set, delete, append to or subtract from.",
        "The outcome for each resource.",
    ),
    "InitProducerId": (
        "A producer asks for its id and epoch; a transactional one fences its predecessors.",
        "The producer's id and epoch.",
    ),
    "InitializeShareGroupState": (
        "Partitions that a share group starts to read.",
        "The outcome for each partition.",
    ),
    "JoinGroup": (
        "A member asks to take part in a classic group, with the assignors it knows.",
        "The generation, the chosen assignor and, for the leader, all members.",
    ),
    "LeaderAndIsr": (
        "The controller tells a broker which partitions it leads or follows (ZooKeeper mode).",
        "The outcome for each partition.",
    ),
    "LeaveGroup": ("Members leave a classic group.", "The outcome for each member."),
    "ListConfigResources": (
        "Which resources have configurations of their own?",
        "The resources, by type and name.",
    ),
    "ListGroups": ("Groups of this broker, by state and type.", "The groups with protocol, state and type."),
    "ListOffsets": (
        "Offsets by timestamp or by one of the special times.",
        "Offset, timestamp and leader epoch for each partition.",
    ),
    "ListPartitionReassignments": (
        "Which replicas are on the move?",
        "The moves under way, with what is added and removed.",
    ),
    "ListTransactions": (
        "Transactions of this coordinator, by state, producer, age and id.",
        "The transactions that match.",
    ),
    "Metadata": (
        "Where are these topics?  Null means all of them.",
        "Brokers, controller, and the leaders and replicas of every partition.",
    ),
    "OffsetCommit": ("A member stores how far it has read.", "The outcome for each partition."),
    "OffsetDelete": ("Partitions whose committed offsets may go.", "The outcome for each partition."),
    "OffsetFetch": (
        "How far have these groups read?",
        "Committed offsets with epoch and metadata, by group and partition.",
    ),
    "OffsetForLeaderEpoch": (
        "Where do these leader epochs end?",
        "The end offset of each epoch, to find where logs part.",
    ),
    "Produce": (
        "Record batches to append, by partition.",
        "Where the batches of each partition begin, or why they were refused.",
    ),
    "PushTelemetry": (
        "Metrics of a client (KIP-714).",
        "Whether the metrics were taken.",
    ),
    "ReadShareGroupState": (
        "Partitions whose share state a leader needs.",
        "The state batches of each partition.",
    ),
    "ReadShareGroupStateSummary": (
        "Partitions whose share state is wanted without its batches.",
        "Epochs and start offset of each partition.",
    ),
    "RemoveRaftVoter": ("A controller should no longer vote.", "Whether it has left the voters."),
    "RenewDelegationToken": ("Let a token live on.", "When the token ends now."),
    "SaslAuthenticate": ("Bytes of the client's side of SASL.", "Bytes of the server's side."),
    "SaslHandshake": ("The SASL mechanism the client has chosen.", "The mechanisms the server has."),
    "ShareAcknowledge": (
        "A member of a share group accepts, releases or rejects records.",
        "The outcome for each partition.",
    ),
    "ShareFetch": (
        "A member of a share group asks for records, and acknowledges earlier ones.",
        "Records, and which of them were acquired for this member.",
    ),
    "ShareGroupDescribe": (
        "Which share groups to describe.",
        "State, members and assignments of each group.",
    ),
    "ShareGroupHeartbeat": (
        "A member of a share group lives, and what it subscribes to.",
        "The member's epoch, the next heartbeat and, when changed, its assignment.",
    ),
    "StopReplica": (
        "The controller tells a broker to stop, perhaps delete, replicas (ZooKeeper mode).",
        "The outcome for each partition.",
    ),
    "StreamsGroupDescribe": (
        "Which streams groups (KIP-1071) to describe.",
        "Topology, members and tasks of each group.",
    ),
    "StreamsGroupHeartbeat": (
        "A member of a streams group (KIP-1071) lives, with its topology and tasks.",
        "The member's epoch, the next heartbeat and, when changed, its tasks.",
    ),
    "SyncGroup": (
        "The leader hands in the assignments of a generation; all members wait for theirs.",
        "The member's own assignment.",
    ),
    "TxnOffsetCommit": (
        "Offsets that become visible when the transaction commits.",
        "The outcome for each partition.",
    ),
    "UnregisterBroker": ("A broker will not come back.", "Whether it is forgotten."),
    "UpdateFeatures": ("New levels of features.", "The outcome, by feature before version 2."),
    "UpdateMetadata": (
        "The controller tells a broker the state of partitions and brokers (ZooKeeper mode).",
        "Whether the broker took it.",
    ),
    "UpdateRaftVoter": (
        "A voter has new endpoints or versions.",
        "Whether they were taken, and who leads.",
    ),
    "Vote": (
        "A candidate, or from version 2 a prospective one, asks for a vote.",
        "Whether the vote was given.",
    ),
    "WriteShareGroupState": (
        "Share state that a leader wants kept.",
        "The outcome for each partition.",
    ),
    "WriteTxnMarkers": (
        "A transaction coordinator has markers written into partitions.",
        "The outcome for each partition.",
    ),
}

# What only brokers and controllers may ask.
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
# What a broker hands on to the controller (KIP-590).
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
    "RequestHeader": "Before every request: what it is, its version, and the number its answer will carry.",
    "ResponseHeader": "Before every response: the number of the request it answers.",
}

# File under records/ -> what the file holds.
RECORD_FILES: dict[str, str] = {
    "metadata": "Records of the metadata log: every change of the cluster is one of these.",
    "control": "Values of control records: leadership, snapshots, voters, ends of transactions.",
    "group": "Records of classic groups and of committed offsets.",
    "consumer_group": "Records of consumer groups (KIP-848).",
    "share_group": "Records of share groups (KIP-932).",
    "streams_group": "Records of streams groups (KIP-1071).",
    "share_state": "Records of the share coordinator: how far each share partition is.",
    "transaction_log": "Records of the transaction coordinator.",
    "producer_snapshot": "The file that keeps the producers of a log.",
    "quorum_state": "The file that keeps a voter's term and vote.",
    "remote_log": "Records about segments in remote storage (KIP-405).",
    "consumer_protocol": "What members of a classic consumer group tell each other when they join.",
    "principal": "How a principal travels inside a forwarded request.",
}

# Record name -> its line.
RECORDS: dict[str, str] = {
    "AbortTransactionRecord": "What came since the matching begin does not count.",
    "AccessControlEntryRecord": "An access rule exists.",
    "BeginTransactionRecord": "What follows takes effect only with the matching end (KIP-868).",
    "BrokerRegistrationChangeRecord": "A broker is fenced, unfenced, shutting down or has other directories.",
    "ClearElrRecord": "The eligible leader replicas of a topic, or of all, are forgotten.",
    "ClientQuotaRecord": "A quota of an entity was set or removed.",
    "ConfigRecord": "An option of a resource was set, or with null removed.",
    "ConsumerGroupCurrentMemberAssignmentKey": "Whose current assignment it is.",
    "ConsumerGroupCurrentMemberAssignmentValue": "What a member owns now and still has to give up.",
    "ConsumerGroupMemberMetadataKey": "Which member it is.",
    "ConsumerGroupMemberMetadataValue": "How a member introduced itself and what it subscribes to.",
    "ConsumerGroupMetadataKey": "Which group it is.",
    "ConsumerGroupMetadataValue": "The epoch of a group.",
    "ConsumerGroupPartitionMetadataKey": "Whose partition counts they are.",
    "ConsumerGroupPartitionMetadataValue": "The subscribed topics as the group last saw them.",
    "ConsumerGroupRegularExpressionKey": "Which subscription pattern of which group it is.",
    "ConsumerGroupRegularExpressionValue": "The topics that a subscription pattern stood for.",
    "ConsumerGroupTargetAssignmentMemberKey": "Whose target assignment it is.",
    "ConsumerGroupTargetAssignmentMemberValue": "What a member should own in the end.",
    "ConsumerGroupTargetAssignmentMetadataKey": "Whose target epoch it is.",
    "ConsumerGroupTargetAssignmentMetadataValue": "The epoch that the target assignments belong to.",
    "ConsumerProtocolAssignment": "The partitions a leader gives to a member.",
    "ConsumerProtocolSubscription": "The topics a member wants, and what it owns.",
    "DefaultPrincipalData": "Type and name of a principal, and whether a token vouched for it.",
    "DelegationTokenRecord": "A delegation token exists.",
    "EndTransactionRecord": "What came since the matching begin takes effect.",
    "EndTxnMarker": "The end of a transaction in a partition; the key says whether it committed.",
    "FeatureLevelRecord": "A feature has a new level.",
    "FenceBrokerRecord": "A broker lost its lease (replaced by BrokerRegistrationChangeRecord).",
    "GroupMetadataKey": "Which classic group it is.",
    "GroupMetadataValue": "Generation, protocol and members of a classic group.",
    "KRaftVersionRecord": "The version of the quorum's own rules.",
    "LeaderChangeMessage": "A new leader of the quorum and who voted for it.",
    "LegacyOffsetCommitKey": "Which group and partition it is, as oldest brokers wrote it.",
    "LegacyOffsetCommitValue": "A committed offset, as oldest brokers wrote it.",
    "NoOpRecord": "Nothing changed; it only moves the log on.",
    "OffsetCommitKey": "Which group and partition it is.",
    "OffsetCommitValue": "A committed offset.",
    "PartitionChangeRecord": "What changed about a partition; fields that did not change are absent.",
    "PartitionRecord": "A partition with its replicas and leader.",
    "ProducerIdsRecord": "Producer ids below the given one are handed out.",
    "ProducerSnapshot": "All producers of a log with their sequences and open transactions.",
    "QuorumStateData": "Term, vote, leader and, in version 0, voters.",
    "RegisterBrokerRecord": "A broker is registered.",
    "RegisterControllerRecord": "A controller is registered.",
    "RemoteLogSegmentMetadataRecord": "A segment is being copied to remote storage, or was.",
    "RemoteLogSegmentMetadataSnapshotRecord": "The state of a remote segment in a snapshot.",
    "RemoteLogSegmentMetadataUpdateRecord": "A remote segment changed its state.",
    "RemotePartitionDeleteMetadataRecord": "A partition's remote segments are to be deleted, or are.",
    "RemoveAccessControlEntryRecord": "An access rule is gone.",
    "RemoveDelegationTokenRecord": "A delegation token is gone.",
    "RemoveTopicRecord": "A topic and its partitions are gone.",
    "RemoveUserScramCredentialRecord": "A user's SCRAM credential is gone.",
    "ShareGroupCurrentMemberAssignmentKey": "Whose current assignment it is.",
    "ShareGroupCurrentMemberAssignmentValue": "What a member reads now.",
    "ShareGroupMemberMetadataKey": "Which member it is.",
    "ShareGroupMemberMetadataValue": "How a member introduced itself and what it subscribes to.",
    "ShareGroupMetadataKey": "Which group it is.",
    "ShareGroupMetadataValue": "The epoch of a group.",
    "ShareGroupStatePartitionMetadataKey": "Whose share partitions they are.",
    "ShareGroupStatePartitionMetadataValue": "Share partitions: being initialised, in use, being deleted.",
    "ShareGroupTargetAssignmentMemberKey": "Whose target assignment it is.",
    "ShareGroupTargetAssignmentMemberValue": "What a member should read.",
    "ShareGroupTargetAssignmentMetadataKey": "Whose target epoch it is.",
    "ShareGroupTargetAssignmentMetadataValue": "The epoch that the target assignments belong to.",
    "ShareSnapshotKey": "Which group and partition the snapshot is of.",
    "ShareSnapshotValue": "The whole state of a share partition.",
    "ShareUpdateKey": "Which group and partition the update is of.",
    "ShareUpdateValue": "What changed in a share partition since its snapshot.",
    "SnapshotFooterRecord": "The last record of a snapshot.",
    "SnapshotHeaderRecord": "The first record of a snapshot, with the time it reaches to.",
    "StreamsGroupCurrentMemberAssignmentKey": "Whose current tasks they are.",
    "StreamsGroupCurrentMemberAssignmentValue": "The tasks a member has now and still has to give up.",
    "StreamsGroupMemberMetadataKey": "Which member it is.",
    "StreamsGroupMemberMetadataValue": "How a member introduced itself, its process and endpoint.",
    "StreamsGroupMetadataKey": "Which group it is.",
    "StreamsGroupMetadataValue": "The epoch of a group.",
    "StreamsGroupTargetAssignmentMemberKey": "Whose target tasks they are.",
    "StreamsGroupTargetAssignmentMemberValue": "The tasks a member should have.",
    "StreamsGroupTargetAssignmentMetadataKey": "Whose target epoch it is.",
    "StreamsGroupTargetAssignmentMetadataValue": "The epoch that the target tasks belong to.",
    "StreamsGroupTopologyKey": "Whose topology it is.",
    "StreamsGroupTopologyValue": "The subtopologies of a group with their topics.",
    "TopicRecord": "A topic exists.",
    "TransactionLogKey": "Which transactional id it is.",
    "TransactionLogValue": "The state of a transaction.",
    "UnfenceBrokerRecord": "A broker has its lease (replaced by BrokerRegistrationChangeRecord).",
    "UnregisterBrokerRecord": "A broker is no longer registered.",
    "UserScramCredentialRecord": "A user's SCRAM credential exists.",
    "VotersRecord": "The voters of the quorum with their directories and endpoints.",
    "ZkMigrationStateRecord": "How far the move from ZooKeeper to the quorum is.",
}
