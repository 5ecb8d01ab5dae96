"""A client of the simulated cluster: creates and deletes topics through any node, and tries again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.broker.peers.peers import Peers
from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.network.network import Address
from barnabas.runtime.simulated.world import InvariantError, Node, World
from barnabas.testing.simulation.metadata_cluster.reference import ReferenceLog
from barnabas.testing.simulation.metadata_cluster.server import ClusterServer, Violations
from barnabas.testing.simulation.metadata_node import creation

CREATE_TOPICS, DELETE_TOPICS = 19, 20
REQUEST_EVERY_NS = 25 * NS_PER_MS
RETRY_NS = 40 * NS_PER_MS
TIMEOUT_MS = 2_500
MAX_TRIES = 6
MAX_AT_ONCE = 12
# Answers after which a client tries again: nothing was done, or perhaps something was.
RETRIABLE = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        # No broker is registered, or none is unfenced.
        ErrorCode.INVALID_REPLICATION_FACTOR,
    }
)

Done = Callable[[ErrorCode, Uuid], None]


class TopicsClient:
    """Remembers what it was told, and finds it wrong if the log disagrees."""

    def __init__(
        self,
        world: World,
        node_id: int,
        servers: Sequence[ClusterServer],
        reference: ReferenceLog,
        violations: Violations,
    ) -> None:
        self.is_active = True
        self.answers = 0
        # Topics that were created, and those whose deletion has begun or is complete.
        self.created: dict[str, Uuid | None] = {}
        self.deleting: set[str] = set()
        self.deleted: set[str] = set()
        self._tries: dict[str, int] = {}
        self._servers = servers
        self._reference = reference
        self._violations = violations
        self._random = world.random_for(f"client {node_id}")
        self._number = 0
        self._in_flight = 0
        self._peers: Peers | None = None
        self.node = world.add_node(node_id, self._boot)

    def _boot(self, node: Node) -> None:
        self._in_flight = 0
        self._peers = Peers(
            f"client-{node.id}",
            network=node.network,
            clock=node.clock,
            timers=node.timers,
            random=node.random,
        )
        self._schedule()

    def _schedule(self) -> None:
        self.node_after(self._random.integer(1, 2 * REQUEST_EVERY_NS), self._act)

    def node_after(self, delay_ns: int, action: Callable[[], None]) -> None:
        node = getattr(self, "node", None)
        if node is not None:
            node.after(delay_ns, action)

    def begin(self) -> None:
        """Called once the node exists."""
        self._schedule()

    def _act(self) -> None:
        if not self.is_active:
            return
        self._schedule()
        if self._in_flight >= MAX_AT_ONCE:
            return
        names = [name for name in self.created if name not in self.deleting]
        if names and self._random.integer(0, 3) == 0:
            self._delete(names[self._random.integer(0, len(names) - 1)])
        else:
            self._number += 1
            self.create(f"t{self.node.id}-{self._number}")

    # Creation

    def create(self, name: str) -> None:
        self._in_flight += 1
        self._try_creation(name, MAX_TRIES)

    def _try_creation(self, name: str, tries: int) -> None:
        self._tries[name] = self._tries.get(name, 0) + 1
        request = creation(name, partitions=self._random.integer(1, 2))
        request.timeout_ms = TIMEOUT_MS
        self._send(CREATE_TOPICS, request, partial(self._creation_answered, name, tries))

    def _creation_answered(self, name: str, tries: int, message: Message | None, _: object) -> None:
        if message is None:
            self._again(partial(self._try_creation, name, tries - 1), tries)
            return
        assert isinstance(message, CreateTopicsResponse)
        result = message.topics[0]
        code = ErrorCode(result.error_code)
        if code in RETRIABLE:
            self._again(partial(self._try_creation, name, tries - 1), tries)
            return
        self._in_flight -= 1
        self.answers += 1
        if code is ErrorCode.NONE:
            self._check(name, Uuid(result.topic_id), "was created")
            self.created[name] = Uuid(result.topic_id)
        elif code is ErrorCode.TOPIC_ALREADY_EXISTS:
            # An earlier request of this client was carried out.
            self._check(name, None, "exists")
            self.created.setdefault(name, None)
        else:
            self._violate(f"the creation of {name} was answered with {code!r} {result.error_message}")

    def _check(self, name: str, topic_id: Uuid | None, what: str) -> None:
        known = self._reference.image.topic_ids.get(name)
        if known is None or (topic_id is not None and known != topic_id):
            self._violate(f"a client knows that {name} {what}, which is not committed")

    # Deletion

    def _delete(self, name: str) -> None:
        self._in_flight += 1
        self.deleting.add(name)
        self._try_deletion(name, MAX_TRIES)

    def _try_deletion(self, name: str, tries: int) -> None:
        state = DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=ZERO_UUID)
        request = DeleteTopicsRequest(topics=[state], timeout_ms=TIMEOUT_MS)
        self._send(DELETE_TOPICS, request, partial(self._deletion_answered, name, tries))

    def _deletion_answered(self, name: str, tries: int, message: Message | None, _: object) -> None:
        code = ErrorCode.REQUEST_TIMED_OUT
        if message is not None:
            assert isinstance(message, DeleteTopicsResponse)
            code = ErrorCode(message.responses[0].error_code)
        if code in RETRIABLE:
            self._again(partial(self._try_deletion, name, tries - 1), tries)
            return
        self._in_flight -= 1
        self.answers += 1
        if code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            self._violate(f"the deletion of {name} was answered with {code!r}")
        elif name in self._reference.image.topic_ids and self._tries[name] == 1:
            self._violate(f"a client knows that {name} was deleted, which is not committed")
        else:
            self.deleted.add(name)

    # Requests

    def _send(
        self, key: int, request: Message, done: Callable[[Message | None, Exception | None], None]
    ) -> None:
        assert self._peers is not None, "it has started"
        server = self._servers[self._random.integer(0, len(self._servers) - 1)]
        self._peers.send(Address(*server.address), key, lambda _: request, done, TIMEOUT_MS)

    def _again(self, action: Callable[[], None], tries: int) -> None:
        if tries > 1:
            self.node.after(self._random.integer(1, 2 * RETRY_NS), action)
        else:
            self._in_flight -= 1

    def _violate(self, reason: str) -> None:
        self._violations.violated(InvariantError(reason))

    # The end

    def check(self) -> None:
        """What was answered holds: topics are there unless deleted, and were created once."""
        image = self._reference.image
        for name, topic_id in self.created.items():
            if name in self.deleting:
                continue
            if topic_id is not None and image.topic_ids.get(name) != topic_id:
                raise InvariantError(f"{name} was created with the id {topic_id} and is lost")
            if name not in image.topic_ids:
                raise InvariantError(f"{name} existed and is lost")
        for name in self.deleted:
            if name in image.topic_ids and self._tries[name] == 1:
                raise InvariantError(f"{name} was deleted and is there again")
        for name, count in self._reference.creations.items():
            limit = self._tries.get(name, count) if name in self.deleting else 1
            if count > limit:
                raise InvariantError(f"{name} was created {count} times")
