"""A broker that follows, without a network: the test answers its fetches."""

from __future__ import annotations

from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.broker.peers.peer_connection import Done, MakeRequest
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.broker.replication.fetcher_manager import FetcherManager
from barnabas.broker.replication.follower_effects import FollowerEffects
from barnabas.broker.replication.truncations import Truncations
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.records import metadata as records
from barnabas.protocol.schema import Message
from barnabas.runtime.network.network import Address
from barnabas.storage.log.log import Log
from tests.broker.worlds.data_world import World
from tests.replica.fetching.world import answer

FETCH_VERSION = 18


class HandConnection:
    """Requests wait for the test's answers."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.sent: list[tuple[Address, int, Message, Done]] = []
        self.is_closed = False

    def send(
        self,
        address: Address,
        key: int,
        make: MakeRequest,
        done: Done,
        timeout_ms: int,
        *,
        in_place: bool = False,
    ) -> None:
        self.sent.append((address, key, make(FETCH_VERSION), done))

    def close(self) -> None:
        self.is_closed = True

    def request(self) -> Any:
        """The request in flight."""
        assert len(self.sent) == 1, self.sent
        return self.sent[0][2]

    def respond(self, response: Message | None, error: Exception | None = None) -> None:
        _, _, _, done = self.sent.pop(0)
        done(response, error)


class FollowerWorld(World):
    """Broker 1, which follows broker 2 or 3 by default; no sync may happen on its loop."""

    def __init__(self, **options: Any) -> None:
        super().__init__(start=False, **options)
        self.connections: list[HandConnection] = []
        truncations = Truncations(
            self.replicas.storage,
            timers=self.timers,
            workers=self.workers,
            now_ns=self.clock.monotonic_ns,
        )
        self.effects = FollowerEffects(self.replicas, truncations)
        self.fetchers = FetcherManager(
            self,
            self.effects,
            connect=self._connect,
            timers=self.timers,
            at_tick_end=self._tick_end.append,
        )
        self.replicas.fetchers = self.fetchers
        self.start()

    def _connect(self, client_id: str) -> HandConnection:
        connection = HandConnection(client_id)
        self.connections.append(connection)
        return connection

    def followed(self, name: str = "orders", leader: int = 2, **fields: Any) -> Uuid:
        topic_id = self.topic(name, replicas=(1, 2, 3), leader=leader, **fields)
        self.settle()
        return topic_id

    def hosted(self, name: str = "orders", index: int = 0) -> Hosted:
        return self.replicas.partitions[name, index]

    def log(self, topic: str = "orders", index: int = 0) -> Log:
        log = self.hosted(topic, index).log
        assert log is not None
        return log

    def delete_topic(self, name: str) -> None:
        self.change(records.RemoveTopicRecord(topic_id=self.image.topic_ids[name]))

    @property
    def connection(self) -> HandConnection:
        (connection,) = (one for one in self.connections if not one.is_closed)
        return connection

    def request(self) -> FetchRequest:
        request = self.connection.request()
        assert isinstance(request, FetchRequest)
        return request

    def respond(
        self,
        topic_id: Uuid,
        content: bytes = b"",
        *,
        high_watermark: int = 0,
        log_start_offset: int = 0,
        diverging: tuple[int, int] | None = None,
        error: ErrorCode = ErrorCode.NONE,
        session_id: int = 5,
    ) -> None:
        data = answer(records=content, diverging=diverging, error=error)
        data.high_watermark, data.log_start_offset = high_watermark, log_start_offset
        topic = FetchResponse.FetchableTopicResponse(topic_id=topic_id, partitions=[data])
        self.connection.respond(FetchResponse(throttle_time_ms=0, session_id=session_id, responses=[topic]))
        self.tick()
