"""Transitions of partitions, derived from deltas, with a result for each.

Contains the order and pace of transitions, and retries; the execution of a transition belongs in
replica_manager.py.

A failed transition does not affect others.  A refused one (KafkaError) has the reason in its result, such as
an offline directory; one that found no space is tried again.  Any other exception is an internal error: the
partition is not served, the error is logged with its name, and the transition is retried with the then
current image.  KRaft mode derives transitions from deltas and ignores the results; LeaderAndIsr and
StopReplica return them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.broker.replicas.hosted_partition import Become, Transition
from barnabas.broker.sliced_work import WAIT, SlicedWork, Step
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.storage.failure import DirectoryFull
from barnabas.storage.log.names import TopicPartition

logger = logging.getLogger(__name__)

FIRST_RETRY_MS = 1_000
MAX_RETRY_MS = 60_000


@dataclass(frozen=True, slots=True)
class TransitionResult:
    """The result of one transition."""

    transition: Transition
    error: ErrorCode


def transition_to(image: Image, topic_id: Uuid, index: int, broker_id: int) -> Transition | None:
    """Returns the transition of a partition to this image; None if there is no such partition."""
    topic = image.topics.get(topic_id)
    state = None if topic is None else topic.partitions.get(index)
    if topic is None or state is None:
        return None
    if broker_id not in state.replicas:
        become = Become.REMOVED
    else:
        become = Become.LEADER if state.leader == broker_id else Become.FOLLOWER
    return Transition(become, topic.name, topic_id, index, state)


def transitions_of_image(image: Image, broker_id: int) -> Iterator[Transition]:
    """Returns the transitions of all partitions with a replica on this broker, in the same order always."""
    for _, topic in sorted(image.topics.items()):
        for index, state in sorted(topic.partitions.items()):
            if broker_id in state.replicas:
                transition = transition_to(image, topic.id, index, broker_id)
                assert transition is not None, "it is in the image"
                yield transition


def transitions_of(delta: Delta, broker_id: int) -> Iterator[Transition]:
    """Removals come first: a new topic may have the name of a deleted one."""
    for topic in delta.removed_topics:
        for index in topic.partitions:
            yield Transition(Become.REMOVED, topic.name, topic.id, index, None)
    for topic_id, index in sorted(delta.partitions):
        transition = transition_to(delta.image, topic_id, index, broker_id)
        if transition is not None:
            yield transition


def is_stray(image: Image, broker_id: int, name: TopicPartition, topic_id: Uuid | None) -> bool:
    """Whether a log belongs to no partition of the image on this broker."""
    topic = image.topic_named(name.topic) if topic_id is None else image.topics.get(topic_id)
    state = None if topic is None else topic.partitions.get(name.partition)
    return state is None or broker_id not in state.replicas


def removals_of_logs(
    image: Image, broker_id: int, logs: Mapping[TopicPartition, Uuid]
) -> Iterator[Transition]:
    """Returns the removals of logs whose partitions this image has no more, while an older one had them."""
    for name, topic_id in logs.items():
        if is_stray(image, broker_id, name, topic_id):
            yield Transition(Become.REMOVED, name.topic, topic_id, name.partition, None)


class DerivedTransitions:
    """The `TransitionPolicy` of KRaft mode: the image says which replicas are here, and in which role."""

    isr_is_in_image = True

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id

    def is_stray(self, image: Image, name: TopicPartition, topic_id: Uuid | None) -> bool:
        return is_stray(image, self._broker_id, name, topic_id)

    def at_start(self, image: Image, logs: Mapping[TopicPartition, Uuid]) -> Iterable[Transition]:
        removals = removals_of_logs(image, self._broker_id, logs)
        return chain(removals, transitions_of_image(image, self._broker_id))

    def kept_epoch(self, broker_epoch: int) -> int:
        return broker_epoch

    def carry_out(self, transitions: ReplicaTransitions, delta: Delta, then: Iterator[None]) -> None:
        transitions.carry_out(transitions_of(delta, self._broker_id), then)


class ReplicaTransitions:
    """Executes transitions in order and in slices.  Runs on the event loop's thread."""

    def __init__(
        self,
        broker_id: int,
        image: Callable[[], Image],
        must_wait: Callable[[Transition], bool],
        carry_out: Callable[[Transition], None],
        mark_failed: Callable[[Transition], None],
        *,
        timers: TimerService,
        now_ns: Callable[[], int],
        after_slice: Callable[[], None],
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        # Checked again after a pause; all later transitions wait, too.
        self._must_wait = must_wait
        self._carry_out = carry_out
        self._mark_failed = mark_failed
        self._timers = timers
        self._now_ns = now_ns
        self._work = SlicedWork(timers, now_ns, self._slice_done)
        self._after_slice = after_slice
        self._has_changed = False
        # Failed transitions by topic id and index: at most one per partition.
        self._failed: dict[tuple[Uuid, int], Transition] = {}
        self._retry_ms = FIRST_RETRY_MS

    @property
    def failed_count(self) -> int:
        """The partitions whose transition failed and is retried."""
        return len(self._failed)

    def carry_out(
        self, transitions: Iterable[Transition], then: Iterator[None] | None = None
    ) -> Promise[list[TransitionResult]]:
        """A result for each, when all are done; what fits one slice is done when this returns.

        The steps of `then` follow, in slices too, before any transition that comes later.
        """
        done: Promise[list[TransitionResult]] = Promise()
        self._work.add(self._steps(iter(transitions), done, then))
        return done

    def stop(self) -> None:
        """Drops all remaining transitions."""
        self._work.stop()
        self._failed.clear()
        self._timers.cancel((self, "retry"))

    def _steps(
        self,
        transitions: Iterator[Transition],
        done: Promise[list[TransitionResult]],
        then: Iterator[None] | None,
    ) -> Iterator[Step]:
        results = []
        for transition in transitions:
            while (error := self._attempt(transition)) is None:
                yield WAIT
            results.append(TransitionResult(transition, error))
            yield None
        done.set(results)
        if then is not None:
            yield from then

    def _slice_done(self) -> None:
        if self._has_changed:
            self._has_changed = False
            self._after_slice()

    def _attempt(self, transition: Transition) -> ErrorCode | None:
        """Returns the result; None if it cannot be executed yet."""
        key = (transition.topic_id, transition.index)
        name = f"{transition.topic}-{transition.index}"
        try:
            if self._must_wait(transition):
                return None
            self._has_changed = True
            self._carry_out(transition)
        except DirectoryFull as full:
            # For lack of space there is no log: it is tried again, at the latest when there is room.
            logger.error("%s cannot become %s yet: %s", name, transition.become.value, full)
            self._try_again(key, transition)
            return full.code
        except KafkaError as error:
            self._failed.pop(key, None)
            logger.error("%s cannot become %s: %s", name, transition.become.value, error)
            return error.code
        except Exception:
            logger.exception(
                "%s could not become %s: it is not served until that succeeds, and is tried again in %d ms",
                name,
                transition.become.value,
                self._retry_ms,
            )
            self._try_again(key, transition)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._failed.pop(key, None) is not None:
            logger.info("%s has become %s after all", name, transition.become.value)
        return ErrorCode.NONE

    def _try_again(self, key: tuple[Uuid, int], transition: Transition) -> None:
        self._failed[key] = transition
        self._mark_failed(transition)
        self._timers.set((self, "retry"), self._now_ns() + self._retry_ms * NS_PER_MS, self._retry)

    def retry_now(self) -> None:
        """What made transitions fail is over."""
        self._retry_ms = FIRST_RETRY_MS
        if self._failed:
            self._timers.set((self, "retry"), self._now_ns(), self._retry)

    def _retry(self) -> None:
        self._retry_ms = min(2 * self._retry_ms, MAX_RETRY_MS)
        self.carry_out(self._still_failed()).then(self._retried, lambda _: None)

    def _still_failed(self) -> Iterator[Transition]:
        """Retries with the current image; a removal stays a removal."""
        for key, failed in list(self._failed.items()):
            current = transition_to(self._image(), *key, self._broker_id)
            if current is None and failed.become is not Become.REMOVED:
                del self._failed[key]  # its deletion is a transition of its own
            elif self._failed.get(key) is failed:
                yield current or failed

    def _retried(self, _: list[TransitionResult]) -> None:
        if not self._failed:
            self._retry_ms = FIRST_RETRY_MS
