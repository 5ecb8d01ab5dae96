"""The controller's requests as metadata records: pure functions of a request and the image before it.

Contains brokers, topics and partitions; transitions and answers belong in inbound.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from immutables import Map

from barnabas.base.ids import LOST_DIR, MIGRATING_DIR, ZERO_UUID, Uuid
from barnabas.metadata.cluster import Broker, Endpoint
from barnabas.metadata.image import Image
from barnabas.metadata.topics import Partition
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.protocol.messages.update_metadata import UpdateMetadataRequest
from barnabas.protocol.records.metadata import (
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from barnabas.protocol.schema import Message

# The leader of a partition whose topic is being deleted.
LEADER_DURING_DELETE = -2
# UpdateMetadata says nothing about the epochs of brokers.
UNKNOWN_EPOCH = -1


class Named(NamedTuple):
    """A partition of a request, and the state that it gets; without a state it is deleted."""

    topic: str
    topic_id: Uuid
    number: int
    state: Partition | None

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.number


def states_of_leader_and_isr(request: LeaderAndIsrRequest) -> Iterator[tuple[Named, bool]]:
    """The partitions, each with whether it is new."""
    grouped = (
        (topic.topic_name, topic.topic_id, state)
        for topic in request.topic_states
        for state in topic.partition_states
    )
    ungrouped = ((state.topic_name, ZERO_UUID, state) for state in request.ungrouped_partition_states)
    for topic, topic_id, state in (*grouped, *ungrouped):
        partition = Partition(
            replicas=tuple(state.replicas),
            directories=(MIGRATING_DIR,) * len(state.replicas),
            isr=tuple(state.isr),
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            removing_replicas=tuple(state.removing_replicas),
            adding_replicas=tuple(state.adding_replicas),
            leader_recovery_state=state.leader_recovery_state,
        )
        yield Named(topic, topic_id, state.partition_index, partition), state.is_new


def states_of_update_metadata(request: UpdateMetadataRequest, image: Image) -> Iterator[Named]:
    grouped = (
        (topic.topic_name, topic.topic_id, state)
        for topic in request.topic_states
        for state in topic.partition_states
    )
    ungrouped = ((state.topic_name, ZERO_UUID, state) for state in request.ungrouped_partition_states)
    for topic, topic_id, state in (*grouped, *ungrouped):
        if state.leader == LEADER_DURING_DELETE:
            yield Named(topic, topic_id, state.partition_index, None)
            continue
        known = image.partition(topic_id, state.partition_index)
        # The request does not say what a reassignment adds and removes; LeaderAndIsr did.
        is_moving = known is not None and known.replicas == tuple(state.replicas)
        partition = Partition(
            replicas=tuple(state.replicas),
            directories=_directories(state.replicas, state.offline_replicas),
            isr=tuple(state.isr),
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.zk_version,
            removing_replicas=known.removing_replicas if known is not None and is_moving else (),
            adding_replicas=known.adding_replicas if known is not None and is_moving else (),
        )
        yield Named(topic, topic_id, state.partition_index, partition)


def _directories(replicas: Iterable[int], offline: Collection[int]) -> tuple[Uuid, ...]:
    """A replica is offline with its broker, or with its directory; which one that is nobody says."""
    return tuple(LOST_DIR if replica in offline else MIGRATING_DIR for replica in replicas)


def topic_records(image: Image, named: Iterable[Named]) -> list[Message]:
    """The records of these states.  Older states than those that the image has are left out."""
    by_topic: dict[tuple[str, Uuid], list[Named]] = {}
    for each in named:
        by_topic.setdefault((each.topic, each.topic_id), []).append(each)
    records: list[Message] = []
    for (topic, topic_id), states in by_topic.items():
        records += _records_of_topic(image, topic, topic_id, states)
    return records


def _records_of_topic(image: Image, topic: str, topic_id: Uuid, states: list[Named]) -> Iterator[Message]:
    known_id = image.topic_ids.get(topic)
    if known_id is not None and known_id != topic_id:
        if all(each.state is None for each in states):
            return  # an earlier topic of that name, which this broker has forgotten
        yield RemoveTopicRecord(topic_id=known_id)
    known = image.topics.get(topic_id)
    before = {} if known is None else dict(known.partitions)
    deleted = {each.number for each in states if each.state is None}
    changed = {
        each.number: each.state
        for each in states
        if each.state is not None and _is_newer(before.get(each.number), each.state)
    }
    if deleted & before.keys():
        yield RemoveTopicRecord(topic_id=topic_id)
        changed = {number: state for number, state in {**before, **changed}.items() if number not in deleted}
        known = None
    if changed and known is None:
        yield TopicRecord(name=topic, topic_id=topic_id)
    for number, state in sorted(changed.items()):
        yield _partition_record(topic_id, number, state)


def _is_newer(before: Partition | None, after: Partition) -> bool:
    if before is None:
        return True
    if (after.leader_epoch, after.partition_epoch) < (before.leader_epoch, before.partition_epoch):
        return False
    return after != before


def _partition_record(topic_id: Uuid, number: int, state: Partition) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=list(state.replicas),
        isr=list(state.isr),
        removing_replicas=list(state.removing_replicas),
        adding_replicas=list(state.adding_replicas),
        leader=state.leader,
        leader_recovery_state=state.leader_recovery_state,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        directories=list(state.directories),
    )


def broker_records(image: Image, live: Iterable[UpdateMetadataRequest.Broker]) -> Iterator[Message]:
    """The brokers of the request are all that are alive."""
    alive = set()
    for broker in live:
        alive.add(broker.id)
        endpoints = tuple(
            Endpoint(end.listener, end.host, end.port, end.security_protocol) for end in broker.endpoints
        )
        known = image.brokers.get(broker.id)
        if known is None or known.endpoints != endpoints or known.rack != broker.rack:
            yield _registration(broker.id, endpoints, broker.rack)
    for broker_id, known in sorted(image.brokers.items()):
        if broker_id not in alive:
            yield UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=known.epoch)


def _registration(broker_id: int, endpoints: tuple[Endpoint, ...], rack: str | None) -> RegisterBrokerRecord:
    return Broker(
        id=broker_id,
        epoch=UNKNOWN_EPOCH,
        incarnation_id=ZERO_UUID,
        endpoints=endpoints,
        features=Map(),
        rack=rack,
        fenced=False,
        in_controlled_shutdown=False,
        directories=(),
    ).to_record()
