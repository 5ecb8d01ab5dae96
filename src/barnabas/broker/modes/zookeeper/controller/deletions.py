"""The deletion of topics: replicas go offline, brokers delete them, then the znodes are removed.

A replica whose broker is down holds the deletion up until the broker is back; a topic whose replicas are
being moved is deleted afterwards.  The request is the znode /admin/delete_topics/T, so that another
controller goes on with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from barnabas.broker.modes.zookeeper.controller.outbound.queues import Outbound
from barnabas.broker.modes.zookeeper.controller.outbound.requests import EPOCH_DURING_DELETE
from barnabas.controller.replication.reassignment import in_progress
from barnabas.controller.state import ControllerState
from barnabas.controller.topics.deletion_steps import remove, take_offline
from barnabas.metadata.topics import Topic
from barnabas.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.protocol.schema import Message

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Deletion:
    """How far the deletion of one topic is."""

    # Brokers whose replicas are offline, and those that were asked to delete them.
    offline: set[int] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)
    # Broker and partition of each replica that has been deleted.
    deleted: set[tuple[int, int]] = field(default_factory=set)
    is_told: bool = False
    is_removed: bool = False


class Deletions:
    """The deletions of an active controller.

    `decide` appends what a function decides; `when_stored` calls a function when everything appended so far
    is in znodes.
    """

    def __init__(
        self,
        state: ControllerState,
        outbound: Outbound,
        decide: Callable[[Callable[[], Sequence[Message]]], None],
        when_stored: Callable[[Callable[[], None]], None],
        remove_request: Callable[[str], None],
    ) -> None:
        self._state = state
        self._outbound = outbound
        self._decide = decide
        self._when_stored = when_stored
        self._remove_request = remove_request
        self._topics: dict[str, _Deletion] = {}
        self._begun: set[str] = set()

    @property
    def names(self) -> Collection[str]:
        """Topics whose deletion has begun; one that waits for the end of a move is used as before."""
        return self._begun

    def clear(self) -> None:
        self._topics.clear()
        self._begun.clear()

    def mark(self, names: Iterable[str]) -> None:
        """At the start of a controller, before it tells anybody anything: these are being deleted."""
        self.clear()
        self._state.deleting = self._begun
        for name in names:
            topic = self._state.image.topic_named(name)
            if topic is not None and not _is_moving(topic):
                self._topics.setdefault(name, _Deletion(is_told=True))
                self._begun.add(name)

    def add(self, names: Iterable[str]) -> None:
        """Topics under /admin/delete_topics."""
        for name in names:
            if name not in self._state.image.topic_ids:
                self._remove_request(name)
            elif name not in self._topics:
                self._topics[name] = _Deletion()
        self.proceed()

    def brokers_gone(self, broker_ids: Iterable[int]) -> None:
        for deletion in self._topics.values():
            deletion.offline.difference_update(broker_ids)
            deletion.asked.difference_update(broker_ids)

    def proceed(self) -> None:
        """Do what can be done now: at the request, when a broker is back, when a move has ended."""
        for name, deletion in list(self._topics.items()):
            topic = self._state.image.topic_named(name)
            if topic is None:
                self._forget(name)
            elif not deletion.is_removed and (name in self._begun or not _is_moving(topic)):
                self._proceed_with(topic, deletion)

    def _proceed_with(self, topic: Topic, deletion: _Deletion) -> None:
        self._begun.add(topic.name)
        if not deletion.is_told:
            deletion.is_told = True
            entries = [(topic, number, partition) for number, partition in sorted(topic.partitions.items())]
            self._outbound.tell_metadata(entries)
        live = sorted(replica for replica in _replicas(topic) if self._state.is_active(replica))
        for replica in live:
            if replica not in deletion.offline:
                deletion.offline.add(replica)
                self._decide(partial(take_offline, self._state, [topic.name], replica))
        missing = _replicas(topic).difference(live)
        if missing and not deletion.asked:
            logger.info(
                "the deletion of topic %s is completed when brokers %s are back", topic.name, sorted(missing)
            )
        unasked = [replica for replica in live if replica not in deletion.asked]
        deletion.asked.update(unasked)
        if unasked:
            self._when_stored(partial(self._stop_replicas, topic.name, unasked))

    def _stop_replicas(self, name: str, broker_ids: Iterable[int]) -> None:
        topic = self._state.image.topic_named(name)
        deletion = self._topics.get(name)
        if topic is None or deletion is None:
            return
        for broker_id in broker_ids:
            stopped = [
                (name, number, EPOCH_DURING_DELETE, True)
                for number, partition in sorted(topic.partitions.items())
                if broker_id in partition.replicas and (broker_id, number) not in deletion.deleted
            ]
            if stopped:
                self._outbound.stop_replicas(broker_id, stopped)

    def stopped(self, broker_id: int, request: StopReplicaRequest, answer: StopReplicaResponse) -> None:
        """A broker has answered: note what it has deleted, and remove topics without replicas."""
        failed = {
            (error.topic_name, error.partition_index) for error in answer.partition_errors if error.error_code
        }
        for topic_state in request.topic_states:
            name = topic_state.topic_name
            deletion = self._topics.get(name)
            if deletion is None or answer.error_code:
                continue
            for state in topic_state.partition_states:
                if state.delete_partition and (name, state.partition_index) not in failed:
                    deletion.deleted.add((broker_id, state.partition_index))
            self._remove_if_done(name, deletion)
        if failed:
            logger.warning(
                "broker %d could not delete its replicas of %s; they are deleted when it is back",
                broker_id,
                ", ".join(f"{name}-{number}" for name, number in sorted(failed)[:10]),
            )

    def _remove_if_done(self, name: str, deletion: _Deletion) -> None:
        topic = self._state.image.topic_named(name)
        if topic is None or deletion.is_removed:
            return
        replicas = {
            (replica, number)
            for number, partition in topic.partitions.items()
            for replica in partition.replicas
        }
        if replicas <= deletion.deleted:
            deletion.is_removed = True
            self._decide(partial(remove, self._state, name))
            self._when_stored(partial(self._forget, name))

    def _forget(self, name: str) -> None:
        self._begun.discard(name)
        if self._topics.pop(name, None) is not None:
            logger.info("topic %s is deleted", name)


def _is_moving(topic: Topic) -> bool:
    return any(map(in_progress, topic.partitions.values()))


def _replicas(topic: Topic) -> set[int]:
    return {replica for partition in topic.partitions.values() for replica in partition.replicas}
