"""Transitions of replicas in ZooKeeper mode: the controller requests each, and gets an answer for each.

What UpdateMetadata says of the cluster changes no replica; only LeaderAndIsr and StopReplica do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from barnabas.base.ids import Uuid
from barnabas.broker.replicas.hosted_partition import Transition
from barnabas.broker.replicas.transitions import ReplicaTransitions, TransitionResult
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image
from barnabas.runtime.loop.promise import Promise
from barnabas.storage.directories.clean_shutdown import NO_BROKER_EPOCH
from barnabas.storage.log.names import TopicPartition


class RequestedTransitions:
    """The `TransitionPolicy` of ZooKeeper mode."""

    # LeaderAndIsr is sent when the leader or the replicas change, not for an ISR.
    isr_is_in_image = False

    def __init__(self) -> None:
        self._requested: Sequence[Transition] = ()
        self._results: Promise[list[TransitionResult]] | None = None

    def request(self, transitions: Sequence[Transition]) -> None:
        """These transitions come with the next delta."""
        self._requested = transitions
        self._results = None

    def take_results(self) -> Promise[list[TransitionResult]] | None:
        """The results of the requested transitions; None if the broker hosts no replicas yet."""
        results, self._results, self._requested = self._results, None, ()
        return results

    def is_stray(self, image: Image, name: TopicPartition, topic_id: Uuid | None) -> bool:
        """None is: a topic that was deleted meanwhile stays marked until this broker has deleted its logs."""
        return False

    def at_start(self, image: Image, logs: Mapping[TopicPartition, Uuid]) -> Iterable[Transition]:
        """None: the controller sends LeaderAndIsr to a broker that has registered."""
        return ()

    def kept_epoch(self, broker_epoch: int) -> int:
        """None, as Apache Kafka's brokers of this mode: only KRaft's controllers ask for it."""
        return NO_BROKER_EPOCH

    def carry_out(self, transitions: ReplicaTransitions, delta: Delta, then: Iterator[None]) -> None:
        self._results = transitions.carry_out(self._requested, then)
        self._requested = ()
