"""The requests that a change of the metadata makes necessary, by broker.  Pure.

LeaderAndIsr goes to the replicas of partitions with a new leader epoch or assignment, UpdateMetadata about
every change to all brokers, StopReplica to those that are no replica any more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from barnabas.base.ids import LOST_DIR
from barnabas.broker.metadata.cluster_view import leader_endpoint
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image
from barnabas.metadata.topics import Partition, Topic
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.protocol.messages.stop_replica import StopReplicaRequest
from barnabas.protocol.messages.update_metadata import UpdateMetadataRequest
from barnabas.protocol.schema import Message

# In the place of a leader: the topic is being deleted.
LEADER_DURING_DELETE = -2
# In the place of a leader epoch, for the same reason: it fences every request before the deletion.
EPOCH_DURING_DELETE = -2

Entry = tuple[Topic, int, Partition]


@dataclass(frozen=True, slots=True)
class Sender:
    """The controller in whose name requests are built."""

    broker_id: int
    epoch: int
    # The listener between brokers.
    listener: str
    # Whether a topic of this name is being deleted.
    is_deleted: Callable[[str], bool]


@dataclass(slots=True)
class BrokerRequests:
    """What one broker is told about one change."""

    leader_and_isr: list[tuple[Entry, bool]] = field(default_factory=list)
    stopped: list[tuple[str, int, int, bool]] = field(default_factory=list)


def requests_after(delta: Delta, sender: Sender) -> dict[int, list[Message]]:
    """The requests to each live broker after this change, in Apache Kafka's order."""
    image = delta.image
    live = live_brokers(image)
    changed = [entry for entry in _changed_entries(delta) if _is_told(entry)]
    returned = {
        broker_id
        for broker_id in delta.brokers
        if broker_id in live and _epoch(delta.before, broker_id) != _epoch(image, broker_id)
    }
    by_broker: dict[int, BrokerRequests] = defaultdict(BrokerRequests)
    for topic, number, after in changed:
        before_topic = delta.before.topics.get(topic.id)
        before = None if before_topic is None else before_topic.partitions.get(number)
        _add_replicas(by_broker, sender, image, (topic, number, after), before)
    requests: dict[int, list[Message]] = {}
    for broker_id in live:
        if broker_id in returned:
            requests[broker_id] = full_state(image, broker_id, sender)
        elif delta.brokers or changed:
            own = by_broker.get(broker_id, BrokerRequests())
            requests[broker_id] = _requests(image, broker_id, sender, own, changed)
    return requests


def full_state(image: Image, broker_id: int, sender: Sender) -> list[Message]:
    """For a broker that has just registered, or of a new controller: everything."""
    entries = [
        (topic, number, partition)
        for _, topic in sorted(image.topics.items())
        for number, partition in sorted(topic.partitions.items())
        if _is_told((topic, number, partition))
    ]
    own = [
        (entry, False)
        for entry in entries
        if broker_id in entry[2].replicas and not sender.is_deleted(entry[0].name)
    ]
    messages: list[Message] = [update_metadata(image, broker_id, sender, entries)]
    if own:
        messages.append(leader_and_isr(image, broker_id, sender, own))
    return messages


def live_brokers(image: Image) -> list[int]:
    return sorted(broker.id for broker in image.brokers.values() if not broker.fenced)


def _epoch(image: Image, broker_id: int) -> int:
    broker = image.brokers.get(broker_id)
    return -1 if broker is None else broker.epoch


def _is_told(entry: Entry) -> bool:
    """A partition that has never had a leader is not known to anybody."""
    return entry[2].partition_epoch >= 0


def _changed_entries(delta: Delta) -> Iterator[Entry]:
    for topic_id, number in sorted(delta.partitions):
        topic = delta.image.topics.get(topic_id)
        if topic is not None:
            yield topic, number, topic.partitions[number]


def _add_replicas(
    by_broker: dict[int, BrokerRequests], sender: Sender, image: Image, entry: Entry, before: Partition | None
) -> None:
    topic, number, after = entry
    known = () if before is None else before.replicas
    for replica in known:
        if replica not in after.replicas:
            by_broker[replica].stopped.append((topic.name, number, after.leader_epoch, True))
    if sender.is_deleted(topic.name):
        return
    is_same = before is not None and (
        before.leader_epoch == after.leader_epoch
        and before.partition_epoch >= 0
        and before.replicas == after.replicas
        and before.adding_replicas == after.adding_replicas
        and before.removing_replicas == after.removing_replicas
    )
    if is_same:
        return
    for replica in after.replicas:
        broker = image.brokers.get(replica)
        if broker is None:
            continue
        is_led_by_other = after.leader not in (replica, -1)
        was_led = before is not None and before.leader == replica
        if broker.in_controlled_shutdown and is_led_by_other and not was_led and replica not in after.isr:
            by_broker[replica].stopped.append((topic.name, number, after.leader_epoch, False))
        else:
            by_broker[replica].leader_and_isr.append((entry, replica not in known))


def _requests(
    image: Image, broker_id: int, sender: Sender, own: BrokerRequests, changed: list[Entry]
) -> list[Message]:
    messages: list[Message] = []
    if own.leader_and_isr:
        messages.append(leader_and_isr(image, broker_id, sender, own.leader_and_isr))
    messages.append(update_metadata(image, broker_id, sender, changed))
    if own.stopped:
        messages.append(stop_replica(image, broker_id, sender, own.stopped))
    return messages


def leader_and_isr(
    image: Image, broker_id: int, sender: Sender, entries: Iterable[tuple[Entry, bool]]
) -> LeaderAndIsrRequest:
    topics: dict[str, LeaderAndIsrRequest.TopicState] = {}
    leaders: set[int] = set()
    for (topic, number, partition), is_new in entries:
        state = topics.get(topic.name)
        if state is None:
            state = topics[topic.name] = LeaderAndIsrRequest.TopicState(
                topic_name=topic.name, topic_id=topic.id, partition_states=[]
            )
        leaders.add(partition.leader)
        state.partition_states.append(
            LeaderAndIsrRequest.PartitionState(
                partition_index=number,
                controller_epoch=sender.epoch,
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
                isr=list(partition.isr),
                partition_epoch=partition.partition_epoch,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
                is_new=is_new,
                leader_recovery_state=partition.leader_recovery_state,
            )
        )
    endpoints = {leader: leader_endpoint(image, leader, sender.listener) for leader in sorted(leaders)}
    return LeaderAndIsrRequest(
        controller_id=sender.broker_id,
        controller_epoch=sender.epoch,
        broker_epoch=_epoch(image, broker_id),
        topic_states=list(topics.values()),
        live_leaders=[
            LeaderAndIsrRequest.LiveLeader(broker_id=leader, host_name=end.host, port=end.port)
            for leader, end in endpoints.items()
            if end is not None
        ],
    )


def update_metadata(
    image: Image, broker_id: int, sender: Sender, entries: Iterable[Entry]
) -> UpdateMetadataRequest:
    live = live_brokers(image)
    topics: dict[str, UpdateMetadataRequest.TopicState] = {}
    for topic, number, partition in entries:
        state = topics.get(topic.name)
        if state is None:
            state = topics[topic.name] = UpdateMetadataRequest.TopicState(
                topic_name=topic.name, topic_id=topic.id, partition_states=[]
            )
        is_deleted = sender.is_deleted(topic.name)
        state.partition_states.append(
            UpdateMetadataRequest.PartitionState(
                partition_index=number,
                controller_epoch=sender.epoch,
                leader=LEADER_DURING_DELETE if is_deleted else partition.leader,
                leader_epoch=partition.leader_epoch,
                isr=list(partition.isr),
                zk_version=partition.partition_epoch,
                replicas=list(partition.replicas),
                offline_replicas=[
                    replica
                    for replica, directory in zip(partition.replicas, partition.directories, strict=True)
                    if replica not in live or directory == LOST_DIR
                ],
            )
        )
    return UpdateMetadataRequest(
        controller_id=sender.broker_id,
        controller_epoch=sender.epoch,
        broker_epoch=_epoch(image, broker_id),
        topic_states=list(topics.values()),
        live_brokers=[_live_broker(image, live_id) for live_id in live],
    )


def _live_broker(image: Image, broker_id: int) -> UpdateMetadataRequest.Broker:
    broker = image.brokers[broker_id]
    return UpdateMetadataRequest.Broker(
        id=broker.id,
        endpoints=[
            UpdateMetadataRequest.Endpoint(
                port=end.port, host=end.host, listener=end.name, security_protocol=end.security_protocol
            )
            for end in broker.endpoints
        ],
        rack=broker.rack,
    )


def stop_replica(
    image: Image, broker_id: int, sender: Sender, partitions: Iterable[tuple[str, int, int, bool]]
) -> StopReplicaRequest:
    """Of topic, number, leader epoch, and whether the log is deleted too."""
    topics: dict[str, StopReplicaRequest.TopicState] = {}
    for name, number, leader_epoch, is_deleted in partitions:
        state = topics.get(name)
        if state is None:
            state = topics[name] = StopReplicaRequest.TopicState(topic_name=name, partition_states=[])
        state.partition_states.append(
            StopReplicaRequest.PartitionState(
                partition_index=number, leader_epoch=leader_epoch, delete_partition=is_deleted
            )
        )
    return StopReplicaRequest(
        controller_id=sender.broker_id,
        controller_epoch=sender.epoch,
        broker_epoch=_epoch(image, broker_id),
        topic_states=list(topics.values()),
    )
