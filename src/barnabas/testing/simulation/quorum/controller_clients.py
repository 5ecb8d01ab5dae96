"""Brokers and a client of a simulated quorum of controllers: they try again until they know, and check what
they are told.

Each finds the active controller by asking one after another; a response may be late, double or missing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from barnabas.base.effects import Event, Received
from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationResponse
from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.simulated.world import InvariantError, Node, World
from barnabas.testing.simulation.metadata_node import creation, heartbeat, registration
from barnabas.testing.simulation.quorum.controller_server import Answer, Ask
from barnabas.testing.simulation.quorum.images import CommittedImages

# How long a response is awaited, and the pause before the next try.
TIMEOUT_NS = 700 * NS_PER_MS
RETRY_NS = 30 * NS_PER_MS
HEARTBEAT_NS = 150 * NS_PER_MS
# What says that nothing was done, or that nobody knows.
RETRIABLE = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        # Too few brokers are unfenced.
        ErrorCode.INVALID_REPLICATION_FACTOR,
    }
)

Done = Callable[[Message | None, ErrorCode], None]


class Asker:
    """A node that asks controllers."""

    def __init__(self, world: World, node_id: int, controllers: int) -> None:
        self.world = world
        self._random = world.random_for(f"asker {node_id}")
        self._controllers = controllers
        # The one that responded last, as far as it said that it is active.
        self._active: int | None = None
        self._number = 0
        self._waiting: dict[int, Done] = {}
        self.node = world.add_node(node_id, self._boot)
        self.started()

    def _boot(self, node: Node) -> Asker:
        self._waiting.clear()
        if hasattr(self, "node"):
            self.started()
        return self

    def started(self) -> None:
        """Called at every start."""
        raise NotImplementedError

    def ask(self, request: Message, done: Done) -> None:
        """`done` gets a response, or an error, or REQUEST_TIMED_OUT if there is none."""
        self._number += 1
        number = self._number
        self._waiting[number] = done
        if self._active is None:
            self._active = self._random.integer(1, self._controllers)
        self.node.send(self._active, Ask(number, request))
        self.node.after(TIMEOUT_NS, partial(self._answered, number, None, ErrorCode.REQUEST_TIMED_OUT))

    def step(self, event: Event) -> None:
        assert isinstance(event, Received)
        answer = event.message
        assert isinstance(answer, Answer)
        if answer.error is ErrorCode.UNKNOWN_SERVER_ERROR:
            raise InvariantError(f"n{event.sender}: an internal error")
        self._answered(answer.number, answer.response, answer.error)

    def _answered(self, number: int, response: Message | None, error: ErrorCode) -> None:
        done = self._waiting.pop(number, None)
        if done is not None:
            if error is not ErrorCode.NONE:
                self._active = None
            done(response, error)


class BrokerAsker(Asker):
    """Registers and sends heartbeats; every start is another incarnation."""

    def __init__(self, world: World, node_id: int, controllers: int, broker_id: int) -> None:
        self.broker_id = broker_id
        self.epoch = -1
        self._incarnation = 0
        super().__init__(world, node_id, controllers)

    def started(self) -> None:
        self._incarnation += 1
        self.epoch = -1
        self._register()

    def _register(self) -> None:
        self.ask(registration(self._incarnation, broker_id=self.broker_id), self._registered)

    def _registered(self, response: Message | None, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            assert isinstance(response, BrokerRegistrationResponse)
            self.epoch = response.broker_epoch
            self._beat()
        else:
            self.node.after(RETRY_NS, self._register)

    def _beat(self) -> None:
        # It has read all metadata, as far as the controller can tell.
        self.ask(heartbeat(self.epoch, 2**62, broker_id=self.broker_id), self._beaten)

    def _beaten(self, response: Message | None, error: ErrorCode) -> None:
        if error in (ErrorCode.NONE, *RETRIABLE):
            assert response is None or isinstance(response, BrokerHeartbeatResponse)
            self.node.after(HEARTBEAT_NS if error is ErrorCode.NONE else RETRY_NS, self._beat)
        elif error is ErrorCode.STALE_BROKER_EPOCH:
            # The registration of an earlier process has overtaken this one's.
            self._register()
        else:
            raise InvariantError(f"a heartbeat of broker {self.broker_id}, epoch {self.epoch}: {error.name}")


class TopicsAsker(Asker):
    """Creates topics, and takes blocks of producer ids."""

    def __init__(
        self,
        world: World,
        node_id: int,
        controllers: int,
        images: CommittedImages,
        brokers: list[BrokerAsker],
    ) -> None:
        self.acknowledged: list[bytes] = []
        self.topics: dict[str, Uuid | None] = {}
        self._images = images
        self._brokers = brokers
        # What is still to be created: the process may end, what it was asked for stays.
        self._wanted: dict[bytes, None] = {}
        # The first ids of blocks.
        self._blocks: set[int] = set()
        super().__init__(world, node_id, controllers)

    @property
    def is_idle(self) -> bool:
        return not self._wanted

    def started(self) -> None:
        for value in self._wanted:
            self._create(value)

    def create(self, value: bytes) -> None:
        self._wanted[value] = None
        if self.node.is_up:
            self._create(value)

    def _create(self, value: bytes) -> None:
        partitions = self._random.integer(1, 2)
        request = creation(_name(value), partitions=partitions, replication_factor=2)
        self.ask(request, partial(self._created, value))

    def _created(self, value: bytes, response: Message | None, error: ErrorCode) -> None:
        topic_id: Uuid | None = None
        if response is not None:
            assert isinstance(response, CreateTopicsResponse)
            error, topic_id = ErrorCode(response.topics[0].error_code), Uuid(response.topics[0].topic_id)
        if error in RETRIABLE:
            self.node.after(self._random.integer(1, 2 * RETRY_NS), partial(self._create, value))
            return
        name = _name(value)
        known = self._images.image.topic_ids.get(name)
        if error is ErrorCode.TOPIC_ALREADY_EXISTS:
            # An earlier request, or a duplicate of this one.
            topic_id = known
        elif error is not ErrorCode.NONE:
            raise InvariantError(f"the creation of {name} was answered with {error.name}")
        if known is None or known != topic_id:
            raise InvariantError(f"{name} was created as {topic_id}, and committed is {known}")
        self.topics[name] = topic_id
        if value in self._wanted:
            del self._wanted[value]
            self.acknowledged.append(value)

    def allocate(self) -> None:
        """A block of producer ids, for one of the brokers."""
        broker = self._brokers[self._random.integer(0, len(self._brokers) - 1)]
        if self.node.is_up:
            request = AllocateProducerIdsRequest(broker_id=broker.broker_id, broker_epoch=broker.epoch)
            self.ask(request, self._allocated)

    def _allocated(self, response: Message | None, error: ErrorCode) -> None:
        if response is not None and error is ErrorCode.NONE:
            assert isinstance(response, AllocateProducerIdsResponse)
            first = response.producer_id_start
            if first in self._blocks or self._images.image.next_producer_id <= first:
                raise InvariantError(f"the block of producer ids from {first} on was given away before")
            self._blocks.add(first)

    def check(self) -> None:
        """Nothing that was answered is lost, and nothing was done twice."""
        for name, topic_id in self.topics.items():
            if self._images.image.topic_ids.get(name) != topic_id:
                raise InvariantError(f"{name} was created as {topic_id} and is lost")
        for name, count in self._images.creations.items():
            if count != 1:
                raise InvariantError(f"{name} was created {count} times")


def _name(value: bytes) -> str:
    return f"t{value.decode()}"
