"""The requests to each broker, one after the other, repeated until it has answered or is gone.

Runs on the loop.  A broker that does not answer delays nobody else: its queue is bounded, and one that
overflows is replaced by the whole state, which the broker gets when it answers again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.base.units import NS_PER_MS
from barnabas.broker.metadata.cluster_view import leader_endpoint
from barnabas.broker.modes.zookeeper.controller.outbound.requests import (
    Entry,
    Sender,
    full_state,
    live_brokers,
    requests_after,
    stop_replica,
    update_metadata,
)
from barnabas.broker.peers.peers import Peers
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.protocol.messages.stop_replica import StopReplicaRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.network.network import Address

logger = logging.getLogger(__name__)

# Requests that wait for one broker; beyond that it gets the whole state instead.
MAX_QUEUED = 1_000
RETRY_MS = 100

# A broker's answer to a request.
Answered = Callable[[int, Message, Message], None]


class Connections(NamedTuple):
    """How requests get to brokers: to this node's own one as objects, to others through `peers`."""

    own_id: int
    deliver: Callable[[Message], Promise[Message]]
    peers: Peers
    timeout_ms: int


class Outbound:
    """The queues of all live brokers while this node's controller is active."""

    def __init__(
        self, connections: Connections, *, clock: Clock, timers: TimerService, answered: Answered
    ) -> None:
        self._connections = connections
        self._clock = clock
        self._timers = timers
        self._answered = answered
        # Of the leadership, or of the last one.
        self._sender: Sender | None = None
        self._is_active = False
        self._removals: dict[int, list[Message]] = {}
        self._image: Image = EMPTY_IMAGE
        self._queues: dict[int, _Queue] = {}

    def activate(self, sender: Sender, image: Image) -> None:
        """Tell every broker everything."""
        is_same = self._sender is not None and self._sender.epoch == sender.epoch
        self._sender = sender
        self._is_active = True
        self._image = image
        for broker_id in live_brokers(image):
            self._queue(broker_id).add(full_state(image, broker_id, sender))
            if is_same:
                self._queue(broker_id).add(self._removals.pop(broker_id, []))
        self._removals.clear()

    def deactivate(self) -> None:
        """Forget what was not sent, but for replicas that are to be removed.

        Nothing else tells of them if this controller goes on in the same epoch.
        """
        self._is_active = False
        for broker_id, queue in self._queues.items():
            removals = [message for message in queue.unanswered if _removes_replicas(message)]
            self._removals[broker_id] = [*self._removals.get(broker_id, []), *removals][:MAX_QUEUED]
            queue.close()
        self._queues.clear()

    def publish(self, delta: Delta) -> None:
        """Tell the brokers about this change."""
        self._image = delta.image
        if self._sender is None or not self._is_active:
            return
        for broker_id in delta.brokers:
            before, after = delta.before.brokers.get(broker_id), delta.image.brokers.get(broker_id)
            if after is None or after.fenced or (before is not None and before.epoch != after.epoch):
                queue = self._queues.pop(broker_id, None)
                if queue is not None:
                    queue.close()
        for broker_id, messages in requests_after(delta, self._sender).items():
            self._queue(broker_id).add(messages)

    def tell_metadata(self, entries: list[Entry], broker_ids: list[int] | None = None) -> None:
        """UpdateMetadata about these partitions as they are, to all live brokers."""
        if self._sender is not None and self._is_active:
            for broker_id in live_brokers(self._image) if broker_ids is None else broker_ids:
                message = update_metadata(self._image, broker_id, self._sender, entries)
                self._queue(broker_id).add([message])

    def tell_everything(self, broker_id: int) -> None:
        if self._sender is not None and self._is_active and broker_id in live_brokers(self._image):
            self._queue(broker_id).add(full_state(self._image, broker_id, self._sender))

    def stop_replicas(self, broker_id: int, partitions: list[tuple[str, int, int, bool]]) -> None:
        """StopReplica of topic, number, leader epoch, and whether the log is deleted too."""
        if self._sender is not None and self._is_active and broker_id in live_brokers(self._image):
            message = stop_replica(self._image, broker_id, self._sender, partitions)
            self._queue(broker_id).add([message])

    def _queue(self, broker_id: int) -> _Queue:
        queue = self._queues.get(broker_id)
        if queue is None:
            queue = self._queues[broker_id] = _Queue(self, broker_id)
        return queue

    # Calls of the queues

    def _send(self, broker_id: int, message: Message, done: Callable[[Message | None, str], None]) -> None:
        connections = self._connections
        if broker_id == connections.own_id:
            connections.deliver(message).then(
                lambda answer: done(answer, ""), lambda error: done(None, str(error))
            )
            return
        assert self._sender is not None, "queues are closed before"
        end = leader_endpoint(self._image, broker_id, self._sender.listener)
        if end is None:
            done(None, f"broker {broker_id} has no listener {self._sender.listener}")
            return
        key = message.schema.key
        assert key is not None, "a request has a key"

        def received(answer: Message | None, error: Exception | None) -> None:
            done(answer, str(error))

        connections.peers.send(
            Address(end.host, end.port), key, lambda _: message, received, connections.timeout_ms
        )

    def _everything(self, broker_id: int) -> list[Message]:
        assert self._sender is not None, "queues are closed before"
        return full_state(self._image, broker_id, self._sender)

    def _retry_later(self, queue: object, action: Callable[[], None]) -> None:
        self._timers.set((queue, "retry"), self._clock.monotonic_ns() + RETRY_MS * NS_PER_MS, action)


class _Queue:
    """The requests to one broker of one epoch."""

    def __init__(self, outbound: Outbound, broker_id: int) -> None:
        self._outbound = outbound
        self._broker_id = broker_id
        self._waiting: deque[Message] = deque()
        self._is_sending = False
        self._is_closed = False
        self._has_failed = False

    @property
    def unanswered(self) -> list[Message]:
        return list(self._waiting)

    def add(self, messages: list[Message]) -> None:
        if len(self._waiting) + len(messages) > MAX_QUEUED:
            logger.warning(
                "broker %d has not answered %d requests; it gets the whole state when it does",
                self._broker_id,
                len(self._waiting),
            )
            head = [self._waiting[0]] if self._is_sending and self._waiting else []
            messages = self._outbound._everything(self._broker_id)
            self._waiting = deque(head)
        self._waiting.extend(messages)
        self._send()

    def close(self) -> None:
        self._is_closed = True
        self._waiting.clear()
        self._outbound._timers.cancel((self, "retry"))

    def _send(self) -> None:
        if self._is_sending or self._is_closed or not self._waiting:
            return
        self._is_sending = True
        message = self._waiting[0]
        self._outbound._send(self._broker_id, message, partial(self._done, message))

    def _done(self, request: Message, answer: Message | None, reason: str) -> None:
        if self._is_closed:
            return
        if answer is None:
            if not self._has_failed:
                logger.warning(
                    "broker %d did not answer %s, which is repeated: %s",
                    self._broker_id,
                    request.schema.name,
                    reason,
                )
            self._has_failed = True
            self._outbound._retry_later(self, self._again)
            return
        self._has_failed = False
        self._is_sending = False
        self._waiting.popleft()
        code = getattr(answer, "error_code", 0)
        if code:
            logger.warning(
                "broker %d refused %s with error %s", self._broker_id, request.schema.name, _name(code)
            )
        self._outbound._answered(self._broker_id, request, answer)
        self._send()

    def _again(self) -> None:
        self._is_sending = False
        self._send()


def _removes_replicas(message: Message) -> bool:
    """Those of a topic that is being deleted are asked for again anyway."""
    return isinstance(message, StopReplicaRequest) and all(
        state.delete_partition and state.leader_epoch >= 0
        for topic in message.topic_states
        for state in topic.partition_states
    )


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
