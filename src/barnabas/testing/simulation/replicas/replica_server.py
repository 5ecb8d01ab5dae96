"""A simulated broker: its replicas, fetchers and fetch sessions are those of production.

Contains the process: registration, heartbeats, metadata, requests in and out, and how it stops.  The replica
manager on logs in memory is in replica_host.py, what a machine keeps in stored_log.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from barnabas.base.effects import Event, Received
from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.broker.handlers import fetch, list_offsets
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationResponse
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.network.network import Address
from barnabas.runtime.simulated.world import InvariantError, Node, World
from barnabas.storage.log.names import TopicPartition
from barnabas.testing.simulation.metadata_node import heartbeat, registration
from barnabas.testing.simulation.replicas.messages import Answer, Ask, Committed, Delete, Deleted, Write
from barnabas.testing.simulation.replicas.replica_host import ReplicaHost
from barnabas.testing.simulation.replicas.stored_log import StoredLog

if TYPE_CHECKING:
    from barnabas.testing.simulation.replicas.partition_checker import PartitionChecker

FIRST_PORT = 9_000
FETCH_VERSION = 17
LIST_OFFSETS_VERSION = 8
HEARTBEAT_NS = 250 * NS_PER_MS
RETRY_NS = 40 * NS_PER_MS
# How long a response of a controller is awaited.
ANSWER_NS = 400 * NS_PER_MS
# How often it is looked which responses are late, and what the periodic tasks of the storage do.
HOUSEKEEPING_NS = 150 * NS_PER_MS
# A clean stop that has not ended by then becomes a kill.
STOP_NS = 1_500 * NS_PER_MS
NO_EPOCH = -1

SETTINGS: dict[str, object] = {
    "num.replica.fetchers": 1,
    "replica.fetch.wait.max.ms": 150,
    "replica.fetch.min.bytes": 1,
    "replica.fetch.response.max.bytes": 1_000_000,
    "replica.fetch.max.bytes": 1_000_000,
    "replica.fetch.backoff.ms": 60,
    "replica.socket.timeout.ms": 450,
    "replica.lag.time.max.ms": 350,
    "fetch.max.bytes": 1_000_000,
}

Done = Callable[[object, ErrorCode], None]


class Machine:
    """What outlives a process: its disk, and what names its next process."""

    def __init__(self, node_id: int) -> None:
        self.id = node_id
        self.logs: dict[TopicPartition, tuple[Uuid, StoredLog]] = {}
        self.incarnation = 0
        # The broker epoch of a process that stopped cleanly.
        self.clean_epoch = NO_EPOCH
        self.asked = 0
        # Writes that have arrived: a connection delivers nothing twice, and nothing to the next process.
        self.writes: set[tuple[int, int]] = set()
        # Why nothing can be written, if it cannot.
        self.full: str | None = None
        # Images that come before this time are taken then: its process is behind with the metadata.
        self.images_from_ns = 0

    def power_loss(self, world: World) -> None:
        random = world.random_for(f"power {self.id} {world.now_ns}")
        for _, stored in self.logs.values():
            stored.power_loss(random)


class Asking:
    """Sends requests, and passes each response on once, or that there is none."""

    def __init__(self, node: Node, machine: Machine) -> None:
        self._node = node
        self._machine = machine
        self._waiting: dict[int, tuple[int, Done]] = {}

    def ask(self, to: int, request: object, done: Done, timeout_ns: int = ANSWER_NS) -> None:
        self._machine.asked += 1
        number = self._machine.asked
        self._waiting[number] = (self._node.world.now_ns + timeout_ns, done)
        self._node.send(to, Ask(number, request))

    def answered(self, answer: Answer) -> None:
        waiting = self._waiting.pop(answer.number, None)
        if waiting is not None:
            waiting[1](answer.response, answer.error)

    def expire(self) -> None:
        now_ns = self._node.world.now_ns
        late = [number for number, (deadline_ns, _) in self._waiting.items() if deadline_ns <= now_ns]
        for number in late:
            waiting = self._waiting.pop(number, None)
            if waiting is not None:
                waiting[1](None, ErrorCode.REQUEST_TIMED_OUT)


class _Timers:
    """The process's timers; what they run is followed by the end of a tick, as on a reactor."""

    def __init__(self, server: ReplicaServer) -> None:
        self._timers = server.process.timers
        self._in_tick = server.in_tick

    def set(self, key: Any, deadline_ns: int, action: Callable[[], None]) -> None:
        self._timers.set(key, deadline_ns, partial(self._in_tick, action))

    def cancel(self, key: Any) -> None:
        self._timers.cancel(key)


class Connection:
    """A fetcher's connection to its leader."""

    def __init__(self, server: ReplicaServer) -> None:
        self._server = server

    def send(
        self,
        address: Address,
        key: int,
        make: Callable[[int], Message],
        done: Callable[[Message | None, Exception | None], None],
        timeout_ms: int,
        *,
        in_place: bool = False,
    ) -> None:
        def answered(response: object, error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                done(cast(Message, response), None)
            else:
                done(None, KafkaError(error))

        leader = address.port - FIRST_PORT
        self._server.asking.ask(leader, make(FETCH_VERSION), answered, timeout_ms * NS_PER_MS)

    def close(self) -> None:
        """Responses that still come are not processed by a fetcher that is closed."""


class ReplicaServer:
    """One process of a broker: the `ReplicaContext` of its parts, and the broker of its handlers."""

    def __init__(
        self,
        process: Node,
        machine: Machine,
        controllers: list[int],
        checker: PartitionChecker,
        *,
        flush_messages: int,
        kill: Callable[[], None],
    ) -> None:
        self.process = process
        # Ends the process, if that loses no more than is allowed.
        self._kill = kill
        self.machine = machine
        self.checker = checker
        self.clock = process.clock
        self.random = process.random
        self.settings = cast(Any, SETTINGS)
        listeners = SimpleNamespace(inter_broker_name="PLAINTEXT")
        self.node = cast(Any, SimpleNamespace(node_id=process.id, listeners=listeners))
        self.metadata = self
        self.image: Image = EMPTY_IMAGE
        self.broker_epoch = NO_EPOCH
        self.quotas = SimpleNamespace(is_set=False)
        self.authorizer = SimpleNamespace(allows=_allow)
        self.asking = Asking(process, machine)
        self._controllers = controllers
        self._controller = 0
        self._tick_end: list[Callable[[], None]] = []
        self._stop_ns: int | None = None
        self._call = cast(
            Any,
            SimpleNamespace(
                api_version=FETCH_VERSION, is_large=False, listener="PLAINTEXT", on_disconnect=None
            ),
        )
        self.timers = _Timers(self)
        self.replicas = ReplicaHost(self, flush_messages, lambda: Connection(self))
        machine.incarnation += 1
        self._previous_epoch, machine.clean_epoch = machine.clean_epoch, NO_EPOCH
        self._registration = registration(
            machine.incarnation, broker_id=process.id, previous_epoch=self._previous_epoch
        )
        self._registration.listeners[0].port = FIRST_PORT + process.id
        self.in_tick(self._housekeeping)
        self._register()

    # The loop

    def at_tick_end(self, action: Callable[[], None]) -> None:
        self._tick_end.append(action)

    def in_tick(self, action: Callable[[], None]) -> None:
        action()
        actions = self._tick_end
        while actions:
            self._tick_end = []
            for each in actions:
                each()
            actions = self._tick_end

    def step(self, event: Event) -> None:
        assert isinstance(event, Received)
        self.in_tick(partial(self._received, event.sender, event.message))

    def after(self, delay_ns: int, action: Callable[[], None]) -> None:
        self.process.after(delay_ns, partial(self.in_tick, action))

    def _housekeeping(self) -> None:
        self.after(HOUSEKEEPING_NS, self._housekeeping)
        self.asking.expire()
        self.replicas.store.housekeeping()

    # The controller

    def send_request(self, request: Message, version: int, principal: str) -> Promise[Message]:
        """To the active controller, as far as it is known."""
        promise: Promise[Message] = Promise()

        def answered(response: object, error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                promise.set(cast(Message, response))
            else:
                promise.fail(KafkaError(error))

        self._ask_controller(request, answered)
        return promise

    def _ask_controller(self, request: Message, done: Done) -> None:
        def answered(response: object, error: ErrorCode) -> None:
            if error in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT):
                self._controller = (self._controller + 1) % len(self._controllers)
            done(response, error)

        self.asking.ask(self._controllers[self._controller], request, answered)

    def _register(self) -> None:
        self._ask_controller(self._registration, self._registered)

    def _registered(self, response: object, error: ErrorCode) -> None:
        if isinstance(response, BrokerRegistrationResponse):
            self.broker_epoch = response.broker_epoch
            self._begin_when_caught_up()
            self._beat()
        else:
            self.after(RETRY_NS, self._register)

    def _beat(self) -> None:
        request = heartbeat(
            self.broker_epoch,
            self.image.offset,
            broker_id=self.process.id,
            want_fence=not self.replicas.is_started,
            want_shut_down=self._stop_ns is not None,
        )
        self._ask_controller(request, self._beaten)

    def _beaten(self, response: object, error: ErrorCode) -> None:
        if isinstance(response, BrokerHeartbeatResponse):
            if response.should_shut_down:
                self._end()
                return
            is_waiting = response.is_fenced or self._stop_ns is not None
            self.after(RETRY_NS if is_waiting else HEARTBEAT_NS, self._beat)
        elif error is ErrorCode.STALE_BROKER_EPOCH:
            self._register()
        else:
            self.after(RETRY_NS, self._beat)

    def _learn(self, image: Image) -> None:
        """What is committed, in order; images in between may be skipped."""
        before = self.image
        if image.offset <= before.offset:
            return
        self.image = image
        if self.replicas.is_started:
            self.replicas.apply(Delta.between(before, image))
        else:
            self._begin_when_caught_up()

    def _begin_when_caught_up(self) -> None:
        """Replicas start with all metadata up to the registration of this process."""
        if not self.replicas.is_started and NO_EPOCH != self.broker_epoch <= self.image.offset:
            self.replicas.begin()

    # The disk

    def space_changed(self) -> None:
        """The disk is full, or has room again."""
        if self.replicas.is_started:
            self.in_tick(partial(self.replicas.fill, self.machine.full))

    # Stopping

    def stop(self) -> None:
        """Controlled shutdown: leaderships move, then the logs are closed."""
        if self._stop_ns is None:
            self._stop_ns = self.process.world.now_ns
            self.after(STOP_NS, self._give_up)

    def _give_up(self) -> None:
        self.after(STOP_NS, self._give_up)
        self._kill()

    def _end(self) -> None:
        if self.replicas.is_started or self._previous_epoch != NO_EPOCH:
            self.replicas.stop()
            self.machine.clean_epoch = self.broker_epoch
        self.process.crash(power_loss=False)

    # Requests

    def _received(self, sender: int, message: object) -> None:
        if isinstance(message, Answer):
            self.asking.answered(message)
        elif isinstance(message, Committed):
            late_ns = self.machine.images_from_ns - self.process.world.now_ns
            if late_ns > 0:
                self.after(late_ns, partial(self._learn, message.image))
            else:
                self._learn(message.image)
        elif isinstance(message, Ask):
            self._serve(sender, message)

    def _serve(self, sender: int, ask: Ask) -> None:
        try:
            answer = self._answer_to(sender, ask)
        except KafkaError as refusal:
            self.process.send(sender, Answer(ask.number, None, refusal.code))
            return
        if isinstance(answer, Promise):
            answer.then(
                lambda response: self.process.send(sender, Answer(ask.number, response)),
                lambda error: self._refuse(sender, ask, error),
            )
        elif answer is not None:
            self.process.send(sender, Answer(ask.number, answer))

    def _refuse(self, sender: int, ask: Ask, error: BaseException) -> None:
        if not isinstance(error, KafkaError):
            raise InvariantError(f"n{self.process.id} cannot answer {ask!r}") from error
        self.process.send(sender, Answer(ask.number, None, error.code))

    def _answer_to(self, sender: int, ask: Ask) -> object:
        request = ask.request
        if isinstance(request, FetchRequest):
            return fetch.handle(cast(Any, self), request, self._call)
        if isinstance(request, ListOffsetsRequest):
            return self._offsets(request)
        if isinstance(request, Write):
            if (sender, ask.number) in self.machine.writes:
                return None
            self.machine.writes.add((sender, ask.number))
            return self.replicas.write(request)
        if isinstance(request, Delete):
            return self._delete(request)
        raise InvariantError(f"n{self.process.id}: {ask!r} is not for a broker")

    def _offsets(self, request: ListOffsetsRequest) -> object:
        call = SimpleNamespace(api_version=LIST_OFFSETS_VERSION)
        steps = list_offsets.handle(cast(Any, self), request, cast(Any, call))
        while True:
            try:
                next(steps)
            except StopIteration as end:
                self.checker.told_offsets(self, request, end.value)
                return end.value

    def _delete(self, request: Delete) -> Deleted:
        hosted = self.replicas.find(request.topic, request.index)
        self.checker.may_delete(hosted, request.offset)
        try:
            self.replicas.delete_records(hosted, request.offset)
            self.checker.deleted(hosted)
        except KafkaError as refusal:
            return Deleted(refusal.code)
        return Deleted(ErrorCode.NONE)


def _allow(*_: object, **__: object) -> bool:
    return True
