"""Random histories of a cluster: brokers come and go, leaders change ISRs, replicas and directories move.

A history is a list of steps in plain JSON, so that Apache Kafka's own controller can decide them too
(ControllerHistory.java in tests/verify).  The first entry is the start; each step has a request and the time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.controller.replication.reassignment import in_progress
from barnabas.metadata.snapshot import record_version
from barnabas.metadata.topics import Partition, Topic
from barnabas.protocol.json_form import to_json
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.record_frame import read_metadata_record, write_metadata_record
from barnabas.protocol.schema import Message
from barnabas.testing.simulation.metadata_node import CLUSTER_ID, heartbeat, registration
from tests.controller.lab import Lab

Plain = Any
Step = dict[str, Any]

STEPS = 70
# The histories that tests/data/controller/histories.jsonl.gz has, one a line.
RECORDED_SEEDS = range(60)
SESSION_S = 9
RELEASES = ("4.1", "4.1", "4.1", "4.0", "3.9", "3.6", "3.5")
# The version in which a response is compared; those without one are left out.
_REPLIES: dict[type[Message], int] = {
    AlterPartitionResponse: 3,
    ElectLeadersResponse: 2,
    AlterPartitionReassignmentsResponse: 1,
    ListPartitionReassignmentsResponse: 0,
    AssignReplicasToDirsResponse: 0,
}


class History:
    """One random history, and what our controller decides in it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lab = Lab(self.random.choice(RELEASES))
        # From 16 on, the order of ids in Java's sets is not that of the numbers.
        first = self.random.choice((1, 1, 14, 100))
        self.broker_ids = list(range(first, first + self.random.randint(2, 5)))
        self.epochs: dict[int, int] = {}
        self.incarnations = dict.fromkeys(self.broker_ids, 0)
        self.steps: list[Step] = [
            {"endOffset": 1, "clusterId": CLUSTER_ID, "sessionTimeoutMs": SESSION_S * 1_000}
        ]
        self.results: list[Plain] = []
        self._replay_from = 0

    def run(self) -> None:
        for broker_id in self.broker_ids:
            self.register(broker_id)
            self.send(heartbeat(self.epochs[broker_id], self.lab.end_offset, broker_id=broker_id))
        for number in range(self.random.randint(1, 3)):
            self.create_topic(f"t{number}")
        moves: Sequence[tuple[int, Callable[[], object]]] = (
            (22, self.some_heartbeat),
            (22, self.some_proposal),
            (8, self.some_registration),
            (8, self.some_reassignment),
            (6, self.some_election),
            (6, self.some_assignment),
            (8, self.some_wait),
            (6, lambda: self.task("balance")),
            (4, lambda: self.task("unclean")),
            (4, lambda: self.send(ListPartitionReassignmentsRequest(topics=None))),
            (2, self.some_unregistration),
            (2, self.fail_over),
        )
        for _ in range(STEPS):
            (move,) = self.random.choices([move for _, move in moves], [weight for weight, _ in moves])
            move()

    # Steps

    def send(self, request: Message, version: int | None = None) -> Message | None:
        self._replay()
        lab = self.lab
        version = request.schema.versions.highest if version is None else version
        step = {"kind": request.schema.name, "version": version, "request": to_json(request, version)}
        self.steps.append({**step, "nowNs": lab.now_ns})
        before = len(lab.written)
        try:
            reply = lab.send(request, Message, version)
        except KafkaError as error:
            self.results.append({"error": int(error.code)})
            return None
        self.results.append({"records": self._records(before), **_reply_form(reply)})
        self._replay_from = len(lab.written)
        return reply

    def task(self, kind: str) -> None:
        """A periodic task of the controller."""
        self._replay()
        lab = self.lab
        self.steps.append({"kind": kind, "version": 0, "request": None, "nowNs": lab.now_ns})
        tasks: dict[str, Callable[[], list[Message]]] = {
            "balance": lab.controller.balance_leaders,
            "unclean": lab.controller.elect_unclean_leaders,
            "fence": lambda: lab.controller.fence_stale(lab.now_ns),
        }
        before = len(lab.written)
        lab.append(tasks[kind]())
        self.results.append({"records": self._records(before)})
        self._replay_from = len(lab.written)

    def _records(self, first: int) -> list[Plain]:
        level = self.lab.image.metadata_version
        return in_any_order([_record_form(record, level) for record in self.lab.written[first:]])

    def _replay(self) -> None:
        """What only our controller decided, such as the id of a topic, is given to the other one."""
        lab = self.lab
        records = self._records(self._replay_from)
        if records:
            step = {"kind": "replay", "version": 0, "request": records, "nowNs": lab.now_ns}
            self.steps.append(step)
            self.results.append({"records": []})
            self._replay_from = len(lab.written)

    def fail_over(self) -> None:
        lab = self.lab
        self._replay()
        self.steps.append({"kind": "failover", "version": 0, "request": None, "nowNs": lab.now_ns})
        self.results.append({"records": []})
        lab.controller.state.heartbeats.activate(lab.image.brokers.values(), lab.now_ns)

    # Brokers

    def directories(self, broker_id: int) -> list[Uuid]:
        return [Uuid.from_words(broker_id, 4711 + number) for number in range(2)]

    def register(self, broker_id: int, *, clean: bool = False, version: int = 4) -> None:
        previous = self.epochs.get(broker_id, -1) if clean else -1
        request = registration(
            self.incarnations[broker_id] + 1, broker_id=broker_id, previous_epoch=previous if clean else -1
        )
        request.log_dirs = list(self.directories(broker_id))
        if version < BrokerRegistrationRequest.schema.versions.highest:
            request.previous_broker_epoch = -1
        reply = self.send(request, version)
        if isinstance(reply, BrokerRegistrationResponse):
            self.epochs[broker_id] = reply.broker_epoch

    def beat(self, broker_id: int, **wants: bool) -> BrokerHeartbeatRequest:
        offset = self.lab.end_offset - 1 - self.random.choice((0, 0, 0, 1, 5))
        request = heartbeat(self.epochs.get(broker_id, 0), max(0, offset), broker_id=broker_id, **wants)
        self.send(request)
        return request

    def some_broker(self) -> int:
        return self.random.choice(self.broker_ids)

    def some_heartbeat(self) -> None:
        broker_id = self.some_broker()
        kind = self.random.random()
        if kind < 0.15:
            self.beat(broker_id, want_shut_down=True)
        elif kind < 0.25:
            self.beat(broker_id, want_fence=True)
        elif kind < 0.27:
            self.beat(broker_id, want_fence=True, want_shut_down=True)
        elif kind < 0.33:
            request = heartbeat(self.epochs.get(broker_id, 0), self.lab.end_offset, broker_id=broker_id)
            request.offline_log_dirs = self.directories(broker_id)[:1]
            self.send(request)
        elif kind < 0.36:
            self.send(heartbeat(self.epochs.get(broker_id, 0) + 1, self.lab.end_offset, broker_id=broker_id))
        else:
            self.beat(broker_id)

    def some_registration(self) -> None:
        """The broker was restarted, after a crash or a clean shutdown; or only its response was lost."""
        broker_id = self.some_broker()
        # A process that registers again during its shutdown goes on with that in ours, not in Apache Kafka.
        is_stopping = self.lab.controller.state.heartbeats.is_shutting_down(broker_id)
        if is_stopping or self.random.random() < 0.85:
            self.incarnations[broker_id] += 1
        if self.random.random() < 0.7:
            self.beat(broker_id, want_fence=True)
        version = self.random.choice((4, 4, 4, 2))
        self.register(broker_id, clean=self.random.random() < 0.5, version=version)
        if self.random.random() < 0.7:
            self.beat(broker_id)

    def some_wait(self) -> None:
        """Time passes; some brokers send heartbeats, the others may lose their sessions."""
        self.lab.wait(SESSION_S * self.random.choice((0.4, 0.6, 1.2)))
        for broker_id in self.broker_ids:
            if self.random.random() < 0.8:
                self.beat(broker_id)
        # Which of several is fenced first is a matter of a map's order: all but one are still in time.
        heartbeats, brokers = self.lab.controller.state.heartbeats, self.lab.image.brokers
        for broker_id in list(heartbeats.expired(self.lab.now_ns))[1:]:
            self.send(heartbeat(brokers[broker_id].epoch, self.lab.end_offset, broker_id=broker_id))
        self.task("fence")
        self.task("fence")

    def some_unregistration(self) -> None:
        self.send(UnregisterBrokerRequest(broker_id=self.some_broker()))

    # Partitions

    def create_topic(self, name: str) -> None:
        size = self.random.randint(1, min(4, len(self.broker_ids)))
        configs = {"min.insync.replicas": str(self.random.randint(1, 3))}
        if self.random.random() < 0.3:
            configs["unclean.leader.election.enable"] = "true"
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreateTopicsRequest.CreatableReplicaAssignment(
                    partition_index=number, broker_ids=self.random.sample(self.broker_ids, size)
                )
                for number in range(self.random.randint(1, 4))
            ],
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=option, value=value)
                for option, value in configs.items()
            ],
        )
        self.lab.send(CreateTopicsRequest(topics=[topic]), Message)

    def some_partition(self) -> tuple[Topic, int, Partition]:
        return self.random.choice(list(self.lab.controller.state.partitions()))

    def some_proposal(self) -> None:
        """A leader proposes an ISR; sometimes with a stale epoch, or with a replica that cannot be in sync."""
        topic, number, partition = self.some_partition()
        strange = self.random.random() < 0.1
        leader = self.some_broker() if strange or partition.leader < 0 else partition.leader
        others = [replica for replica in partition.replicas if replica != leader]
        isr = [leader, *self.random.sample(others, self.random.randint(0, len(others)))]
        self.random.shuffle(isr)
        if self.random.random() < 0.03:
            isr.append(self.random.choice(self.broker_ids))
        version = self.random.choice((2, 3))
        odd_epoch = self.random.choice((-1, 1)) if self.random.random() < 0.05 else 0
        odd_version = self.random.choice((-1, 1)) if self.random.random() < 0.05 else 0
        states = [
            AlterPartitionRequest.BrokerState(
                broker_id=member,
                broker_epoch=-1 if self.random.random() < 0.1 else self.epochs.get(member, -1),
            )
            for member in isr
        ]
        data = AlterPartitionRequest.PartitionData(
            partition_index=number if self.random.random() < 0.98 else 99,
            leader_epoch=partition.leader_epoch + odd_epoch,
            leader_recovery_state=self.random.choice((0, 0, 0, 0, 0, 1)),
            partition_epoch=partition.partition_epoch + odd_version,
        )
        if version < 3:
            data.new_isr = isr
        else:
            data.new_isr_with_epochs = states
        topic_id = topic.id if self.random.random() < 0.98 else Uuid.from_words(9, 9)
        topics = [AlterPartitionRequest.TopicData(topic_id=topic_id, partitions=[data])]
        self.send(
            AlterPartitionRequest(broker_id=leader, broker_epoch=self.epochs.get(leader, -1), topics=topics),
            version,
        )

    def some_election(self) -> None:
        topic, number, _ = self.some_partition()
        chosen = [ElectLeadersRequest.TopicPartitions(topic=topic.name, partitions=[number])]
        self.send(
            ElectLeadersRequest(
                election_type=self.random.choice((0, 0, 1)),
                topic_partitions=None if self.random.random() < 0.3 else chosen,
            )
        )

    def some_reassignment(self) -> None:
        parts = AlterPartitionReassignmentsRequest
        topic, number, partition = self.some_partition()
        replicas: list[int] | None = None
        if not in_progress(partition) or self.random.random() < 0.5:
            replicas = self.random.sample(self.broker_ids, self.random.randint(1, len(self.broker_ids)))
        if self.random.random() < 0.03:
            replicas = [*partition.replicas, 4_711]
        request = parts(
            allow_replication_factor_change=self.random.random() < 0.9,
            topics=[
                parts.ReassignableTopic(
                    name=topic.name,
                    partitions=[parts.ReassignablePartition(partition_index=number, replicas=replicas)],
                )
            ],
        )
        self.send(request)

    def some_assignment(self) -> None:
        """A broker reports in which directory a replica is."""
        parts = AssignReplicasToDirsRequest
        topic, number, partition = self.some_partition()
        if partition.elr and self.random.random() < 0.95:
            return  # As `differs_on_purpose` has it.
        broker_id = self.random.choice(partition.replicas if self.random.random() < 0.9 else self.broker_ids)
        directory = self.random.choice([*self.directories(broker_id), Uuid.from_words(7, 7)])
        self.send(
            parts(
                broker_id=broker_id,
                broker_epoch=self.epochs.get(broker_id, -1),
                directories=[
                    parts.DirectoryData(
                        id=directory,
                        topics=[
                            parts.TopicData(
                                topic_id=topic.id, partitions=[parts.PartitionData(partition_index=number)]
                            )
                        ],
                    )
                ],
            )
        )


def random_history(seed: int) -> History:
    history = History(seed)
    history.run()
    return history


def _record_form(record: Message, level: int) -> Plain:
    """As decoded from the bytes that would be written."""
    version = record_version(record, level)
    decoded, version = read_metadata_record(write_metadata_record(record, version))
    return {"type": _type_name(record), "version": version, "data": to_json(decoded, version)}


def _type_name(record: Message) -> str:
    name = record.schema.name
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name).lstrip("_")


def _reply_form(reply: Message) -> Plain:
    if isinstance(reply, BrokerHeartbeatResponse):
        flags = (reply.is_caught_up, reply.is_fenced, reply.should_shut_down)
        return {"reply": " ".join(str(flag).lower() for flag in flags)}
    if isinstance(reply, BrokerRegistrationResponse):
        return {"reply": str(reply.broker_epoch)}
    version = _REPLIES.get(type(reply))
    return {} if version is None else {"reply": to_json(reply, version)}


def in_any_order(records: list[Plain]) -> list[Plain]:
    """Changes of partitions that follow each other are compared in the order of the partitions."""
    ordered: list[Plain] = []
    changes: list[Plain] = []
    for record in [*records, None]:
        if record is not None and record["type"] == "PARTITION_CHANGE_RECORD":
            changes.append(record)
            continue
        changes.sort(key=lambda change: (change["data"]["topicId"], change["data"]["partitionId"]))
        ordered += changes
        changes = []
        if record is not None:
            ordered.append(record)
    return ordered


def comparable(result: Plain) -> Plain:
    """A result without the order of Java's maps."""
    result = dict(result)
    if "records" in result:
        result["records"] = in_any_order(result["records"])
    reply = result.get("reply")
    for name in ("replicaElectionResults", "topics"):
        if isinstance(reply, dict) and name in reply:
            reply = {**reply, name: sorted(map(_in_order, reply[name]), key=repr)}
    return result if reply is None else {**result, "reply": reply}


def _in_order(topic: Plain) -> Plain:
    partitions = "partitionResult" if "partitionResult" in topic else "partitions"
    return {**topic, partitions: sorted(topic[partitions], key=repr)}


def compared_steps(ours: Sequence[Plain], theirs: Sequence[Plain]) -> int:
    """Asserts that the results are equal; returns how many are compared.

    That is all of them, unless one differs on purpose: what follows then has another state to start from.
    """
    assert len(ours) == len(theirs)
    for number, (own, other) in enumerate(zip(map(comparable, ours), map(comparable, theirs), strict=True)):
        if own != other:
            assert differs_on_purpose(own, other), f"step {number}: {own} is not {other}"
            return number
    return len(ours)


def differs_on_purpose(ours: Plain, theirs: Plain) -> bool:
    """Apache Kafka 4.1 keeps replicas that were removed as eligible leaders, cannot decide when one of them
    is assigned again, and drops all of them when a replica moves to another directory.
    """
    if [int(ErrorCode.UNKNOWN_SERVER_ERROR)] == _reassignment_errors(theirs):
        return True
    return bool(_without_elr(ours) == _without_elr(theirs))


def _reassignment_errors(result: Plain) -> list[int]:
    responses = result["reply"].get("responses", []) if isinstance(result.get("reply"), dict) else []
    return [partition["errorCode"] for topic in responses for partition in topic["partitions"]]


def _without_elr(result: Plain) -> Plain:
    records = [
        {**record, "data": {k: v for k, v in record["data"].items() if k != "eligibleLeaderReplicas"}}
        for record in result.get("records", [])
    ]
    left = [record for record in records if record["data"].keys() - {"topicId", "partitionId"}]
    return {**result, "records": left}
