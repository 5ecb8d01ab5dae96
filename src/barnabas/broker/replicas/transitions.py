"""Partitions on their way into new states, a result for each: what deltas ask for, and what came of it.

What lives here: how a delta becomes transitions, their order and pace, and what happens to one that fails.
What may not: what a transition does (replicas.py).

A transition that fails fails alone.  One that was refused (a KafkaError) has its reason in its result: its
directory is offline, say.  Any other exception is a fault of ours: the partition serves nobody, the log says
so with its name, and the transition is tried again, to whatever the image says by then.  KRaft mode derives
transitions from deltas and nobody waits for the results; LeaderAndIsr and StopReplica answer with them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.broker.replicas.hosted_partition import Become, Transition
from barnabas.broker.sliced_work import WAIT, SlicedWork, Step
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService

logger = logging.getLogger(__name__)

FIRST_RETRY_MS = 1_000
MAX_RETRY_MS = 60_000


@dataclass(frozen=True, slots=True)
class TransitionResult:
    """What came of one transition."""

    transition: Transition
    error: ErrorCode


def transition_to(image: Image, topic_id: Uuid, index: int, broker_id: int) -> Transition | None:
    """What this image makes of a partition on this broker; None if there is no such partition."""
    topic = image.topics.get(topic_id)
    state = None if topic is None else topic.partitions.get(index)
    if topic is None or state is None:
        return None
    if broker_id not in state.replicas:
        become = Become.GONE
    else:
        become = Become.LEADER if state.leader == broker_id else Become.FOLLOWER
    return Transition(become, topic.name, topic_id, index, state)


def transitions_of_image(image: Image, broker_id: int) -> Iterator[Transition]:
    """Of all partitions that have a replica here."""
    for topic in image.topics.values():
        for index, state in topic.partitions.items():
            if broker_id in state.replicas:
                transition = transition_to(image, topic.id, index, broker_id)
                assert transition is not None, "it is in the image"
                yield transition


def transitions_of(delta: Delta, broker_id: int) -> Iterator[Transition]:
    """What goes comes first: a new topic may have an old one's name."""
    for topic in delta.removed_topics:
        for index in topic.partitions:
            yield Transition(Become.GONE, topic.name, topic.id, index, None)
    for topic_id, index in sorted(delta.partitions):
        transition = transition_to(delta.image, topic_id, index, broker_id)
        if transition is not None:
            yield transition


class ReplicaTransitions:
    """Carries transitions out in the order in which they come, a slice at a time.  For the loop's thread."""

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
        # Asked again after a pause; all transitions behind this one wait with it.
        self._must_wait = must_wait
        self._carry_out = carry_out
        self._mark_failed = mark_failed
        self._timers = timers
        self._now_ns = now_ns
        self._work = SlicedWork(timers, now_ns, self._slice_done)
        self._after_slice = after_slice
        self._has_changed = False
        # What failed, by topic id and number: at most one transition a partition.
        self._failed: dict[tuple[Uuid, int], Transition] = {}
        self._retry_ms = FIRST_RETRY_MS

    @property
    def failed_count(self) -> int:
        """Partitions that could not be taken into their state and are tried again."""
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
        """Forget what is left; nobody hears of it."""
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
        """What came of it; None: it cannot be carried out yet."""
        key = (transition.topic_id, transition.index)
        name = f"{transition.topic}-{transition.index}"
        try:
            if self._must_wait(transition):
                return None
            self._has_changed = True
            self._carry_out(transition)
        except KafkaError as error:
            self._failed.pop(key, None)
            logger.error("%s cannot become %s: %s", name, transition.become.value, error)
            return error.code
        except Exception:
            self._failed[key] = transition
            logger.exception(
                "%s could not become %s: it is not served until that succeeds, and is tried again in %d ms",
                name,
                transition.become.value,
                self._retry_ms,
            )
            self._mark_failed(transition)
            self._timers.set((self, "retry"), self._now_ns() + self._retry_ms * NS_PER_MS, self._retry)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self._failed.pop(key, None) is not None:
            logger.info("%s has become %s after all", name, transition.become.value)
        return ErrorCode.NONE

    def _retry(self) -> None:
        self._retry_ms = min(2 * self._retry_ms, MAX_RETRY_MS)
        self.carry_out(self._still_failed()).then(self._retried, lambda _: None)

    def _still_failed(self) -> Iterator[Transition]:
        """To what the image says now; a replica that was to go is to go still."""
        for key, failed in list(self._failed.items()):
            current = transition_to(self._image(), *key, self._broker_id)
            if current is None and failed.become is not Become.GONE:
                del self._failed[key]  # its deletion came as a transition of its own
            elif self._failed.get(key) is failed:
                yield current or failed

    def _retried(self, _: list[TransitionResult]) -> None:
        if not self._failed:
            self._retry_ms = FIRST_RETRY_MS
