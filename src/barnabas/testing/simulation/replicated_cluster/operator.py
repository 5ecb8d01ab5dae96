"""The operator: creates topics, and moves leaders and replicas about while clients work."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import ZERO_UUID
from barnabas.base.units import NS_PER_MS
from barnabas.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.messages.delete_records import DeleteRecordsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.schema import Message
from barnabas.testing.simulation.metadata_node import creation
from barnabas.testing.simulation.replicated_cluster.client import Cluster, ClusterClient

CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, ELECT_LEADERS, REASSIGN = 19, 20, 21, 43, 45
RETRY_NS = 60 * NS_PER_MS
ACT_EVERY_NS = 400 * NS_PER_MS
TIMEOUT_MS = 2_500
PREFERRED = 0
RETRIABLE = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        # Not enough brokers are registered, or unfenced.
        ErrorCode.INVALID_REPLICATION_FACTOR,
    }
)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic that is to be there."""

    name: str
    partitions: int
    replication_factor: int
    configs: dict[str, str]


class Operator(ClusterClient):
    """Creates whatever topic of the plan is missing; while it disturbs, it also deletes some."""

    def __init__(self, cluster: Cluster, node_id: int, plans: list[TopicPlan]) -> None:
        self.plans = {plan.name: plan for plan in plans}
        self.may_disturb = False
        self.may_reassign = any(plan.replication_factor > 1 for plan in plans)
        self._creating: set[str] = set()
        super().__init__(cluster, node_id)

    def started(self) -> None:
        self._creating = set()
        self.after(RETRY_NS, self._look)
        self.after(ACT_EVERY_NS, self._act)

    # Topics

    @property
    def is_complete(self) -> bool:
        known = self.cluster.reference.image.topic_ids
        return all(name in known for name in self.plans)

    def _look(self) -> None:
        self.after(RETRY_NS, self._look)
        known = self.image().topic_ids
        for plan in self.plans.values():
            if plan.name not in known and plan.name not in self._creating:
                self._create(plan)

    def _create(self, plan: TopicPlan) -> None:
        self._creating.add(plan.name)
        request = creation(
            plan.name,
            partitions=plan.partitions,
            replication_factor=plan.replication_factor,
            configs=plan.configs,
        )
        request.timeout_ms = TIMEOUT_MS
        self.send(self.any_broker(), CREATE_TOPICS, request, partial(self._created, plan), TIMEOUT_MS + 500)

    def _created(self, plan: TopicPlan, message: Message | None) -> None:
        self._creating.discard(plan.name)
        if isinstance(message, CreateTopicsResponse):
            code = ErrorCode(message.topics[0].error_code)
            if code not in RETRIABLE and code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self.violate(f"{plan.name} was not created: {code!r} {message.topics[0].error_message}")

    # Changes

    def _act(self) -> None:
        self.after(ACT_EVERY_NS, self._act)
        partitions = self.partitions() if self.may_disturb else []
        if not partitions:
            return
        name, topic_id, index, state = partitions[self.random.integer(0, len(partitions) - 1)]
        match self.random.integer(0, 9):
            case 0:
                topic = DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=ZERO_UUID)
                self._request(DELETE_TOPICS, DeleteTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS))
            case 1 | 2 | 3:
                topic_partitions = [ElectLeadersRequest.TopicPartitions(topic=name, partitions=[index])]
                self._request(
                    ELECT_LEADERS,
                    ElectLeadersRequest(election_type=PREFERRED, topic_partitions=topic_partitions),
                )
            case 4 | 5 | 6 if self.may_reassign:
                self._reassign(name, index)
            case 7:
                history = self.cluster.history(name, topic_id, index)
                self._delete_records(name, index, state.leader, self.random.integer(0, history.end_offset))
            case _:
                pass

    def _reassign(self, name: str, index: int) -> None:
        """To some brokers, in some order; now and then a reassignment is cancelled."""
        brokers = [server.id for server in self.cluster.servers if server.is_broker]
        count = min(max(self.plans[name].replication_factor, 1), len(brokers))
        target: list[int] = []
        while len(target) < count:
            target.append(brokers.pop(self.random.integer(0, len(brokers) - 1)))
        partition = AlterPartitionReassignmentsRequest.ReassignablePartition(
            partition_index=index, replicas=target if self.random.integer(0, 5) else None
        )
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic(name=name, partitions=[partition])
        self._request(REASSIGN, AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=[topic]))

    def _delete_records(self, name: str, index: int, leader: int, offset: int) -> None:
        if leader < 0:
            return
        partition = DeleteRecordsRequest.Partition(partition_index=index, offset=offset)
        topic = DeleteRecordsRequest.Topic(name=name, partitions=[partition])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        self.send(leader, DELETE_RECORDS, request, _ignore, TIMEOUT_MS)

    def _request(self, key: int, request: Message) -> None:
        self.send(self.any_broker(), key, request, _ignore, TIMEOUT_MS)


def _ignore(message: Message | None) -> None:
    """Whether it was done shows in the metadata."""
