"""Members of groups in the simulated world: classic ones, those of KIP-848, and standalone consumers; not a
scenario itself.

Contains what clients do, in the order in which real ones do it, and how they handle responses.  Faults and
invariants (`group_book`) belong elsewhere; every response is passed on to be checked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.coordinator.group.offsets.commit import commit
from barnabas.coordinator.group.offsets.fetch import fetch
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.world import World
from barnabas.testing.simulation.coordinators.group_book import Book, Sent
from barnabas.testing.simulation.coordinators.shard_host import Cluster, Host, Wire

R = TypeVar("R")

HEARTBEAT_NS = 300 * NS_PER_MS
SESSION_MS = 1_500
REBALANCE_MS = 1_200
REQUEST_TIMEOUT_NS = 800 * NS_PER_MS
BACKOFF_NS = 100 * NS_PER_MS
COMMIT_VERSION = 9


class Scene(Protocol):
    """What the clients of a world share: time, metadata, the model, and the way to their coordinator."""

    random: SeededRandom

    @property
    def book(self) -> Book: ...

    @property
    def world(self) -> World: ...

    def new_offset(self) -> int:
        """Every commit has a unique offset, by which it is identified."""
        ...

    def partitions_of(self, topic: str) -> list[int]: ...

    def topic_of(self, topic_id: Uuid) -> str | None: ...

    def after(self, delay_ns: int, action: Callable[[], None]) -> None: ...

    def call(
        self,
        client: Client,
        request: Message,
        decide: Callable[[GroupMachine, Context], Decision[R]],
        then: Callable[[R | KafkaError | None], None],
        check: Callable[[R, int], None] | None,
        timeout_ns: int,
        *,
        in_order: bool,
    ) -> None:
        """Ask the coordinator of its group: by the request on the wire, or by what its machine decides."""
        ...


class ShardScene:
    """All clients of a world with one shard, and nothing between them but a wire."""

    def __init__(
        self, world: World, cluster: Cluster, host: Host[GroupMachine], wire: Wire, book: Book
    ) -> None:
        self.world = world
        self.cluster = cluster
        self.host = host
        self.wire = wire
        self.book = book
        self.random = world.random_for("clients")
        self._next_offset = 0

    def new_offset(self) -> int:
        self._next_offset += 1
        return self._next_offset

    def partitions_of(self, topic: str) -> list[int]:
        known = self.cluster.image.topic_named(topic)
        return [] if known is None else sorted(known.partitions)

    def topic_of(self, topic_id: Uuid) -> str | None:
        known = self.cluster.image.topics.get(topic_id)
        return None if known is None else known.name

    def after(self, delay_ns: int, action: Callable[[], None]) -> None:
        self.world.agenda.after(delay_ns, action)

    def call(
        self,
        client: Client,
        request: Message,
        decide: Callable[[GroupMachine, Context], Decision[R]],
        then: Callable[[R | KafkaError | None], None],
        check: Callable[[R, int], None] | None,
        timeout_ns: int,
        *,
        in_order: bool,
    ) -> None:
        def ask() -> Promise[R]:
            asked_at = self.book.position
            promise = self.host.ask(decide)
            if check is not None:
                promise.then(lambda value: check(value, asked_at), lambda _: None)
            return promise

        self.wire.call(ask, then, timeout_ns, in_order=in_order)


class Client:
    """A client with a connection to the coordinator, which may be slow and may crash."""

    def __init__(self, scene: Scene, group_id: str, name: str) -> None:
        self.scene = scene
        self.group_id = group_id
        self.name = name
        self.is_alive = True
        self.commits_confirmed = 0
        self._paused_until_ns = 0

    def __repr__(self) -> str:
        return f"{self.name} of {self.group_id}"

    # Time

    def after(self, delay_ns: int, action: Callable[[], None]) -> None:
        self.scene.after(delay_ns, partial(self._act, action))

    def _act(self, action: Callable[[], None]) -> None:
        """A slow client acts later, and a crashed one not at all."""
        if not self.is_alive:
            return
        wait_ns = self._paused_until_ns - self.scene.world.now_ns
        if wait_ns > 0:
            self.after(wait_ns, action)
        else:
            action()

    def pause(self, duration_ns: int) -> None:
        self.scene.world.agenda.note(f"{self!r} is slow for {duration_ns // NS_PER_MS} ms")
        self._paused_until_ns = self.scene.world.now_ns + duration_ns

    def crash(self) -> None:
        self.scene.world.agenda.note(f"{self!r} crashes")
        self.is_alive = False

    # Requests

    def call(
        self,
        request: Message,
        decide: Callable[[GroupMachine, Context], Decision[R]],
        then: Callable[[R | KafkaError | None], None],
        check: Callable[[R, int], None] | None = None,
        timeout_ns: int = REQUEST_TIMEOUT_NS,
        *,
        in_order: bool = False,
    ) -> None:
        """Send a request to the coordinator; `check` gets the response as it is sent, and the model's
        position when the request was made."""
        self.scene.call(
            self,
            request,
            decide,
            lambda value: self._act(partial(then, value)),
            check,
            timeout_ns,
            in_order=in_order,
        )

    def commit(
        self,
        partitions: list[tuple[str, int]],
        member_id: str,
        generation: int,
        then: Callable[[ErrorCode | None], None] = lambda _: None,
        instance_id: str | None = None,
    ) -> None:
        """Commit a new offset of each partition; `then` gets the result."""
        offsets = {partition: self.scene.new_offset() for partition in partitions}
        for offset in offsets.values():
            self.scene.book.sent[offset] = Sent(self.group_id, member_id, generation)
        request = commit_request(self.group_id, offsets, member_id, generation, instance_id)

        def check(response: OffsetCommitResponse, asked_at: int) -> None:
            committed = {
                (topic.name, row.partition_index): offsets[topic.name, row.partition_index]
                for topic in response.topics
                for row in topic.partitions
                if not row.error_code
            }
            self.scene.book.check_committed(self.group_id, committed)
            self.commits_confirmed += 1

        def received(answer: OffsetCommitResponse | KafkaError | None) -> None:
            then(
                answer.code if isinstance(answer, KafkaError) else None if answer is None else ErrorCode.NONE
            )

        self.call(
            request,
            lambda machine, context: commit(machine.offsets, request, COMMIT_VERSION, context),
            received,
            check,
        )

    def fetch(self, topics: list[str] | None, *, stable: bool, member: tuple[str, int] | None = None) -> None:
        """Fetch committed offsets."""
        requested = None
        if topics is not None:
            requested = [
                OffsetFetchRequest.Topics(name=topic, partition_indexes=self.scene.partitions_of(topic))
                for topic in topics
            ]
        request = OffsetFetchRequest.Group(group_id=self.group_id, topics=requested)
        if member is not None:
            request.member_id, request.member_epoch = member

        def check(response: OffsetFetchResponse.Group, asked_at: int) -> None:
            fetched = {
                (topic.name, row.partition_index): None if row.error_code else row.committed_offset
                for topic in response.topics
                for row in topic.partitions
            }
            self.scene.book.check_fetched(self.group_id, fetched, asked_at, stable=stable)

        self.call(
            OffsetFetchRequest(groups=[request], require_stable=stable),
            lambda machine, _: fetch(machine.offsets, request, require_stable=stable),
            lambda _: None,
            check,
        )


def commit_request(
    group_id: str,
    offsets: dict[tuple[str, int], int],
    member_id: str,
    generation: int,
    instance_id: str | None,
) -> OffsetCommitRequest:
    topics: dict[str, list[OffsetCommitRequest.Partition]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequest.Partition(
                partition_index=partition, committed_offset=offset, committed_metadata=""
            )
        )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=[OffsetCommitRequest.Topic(name=name, partitions=rows) for name, rows in topics.items()],
    )
