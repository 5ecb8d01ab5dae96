"""A scripted broker for one test: it responds as configured, and records its requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.batch.view import BatchView, patch_offsets
from barnabas.protocol.apis import apis
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.schema import Message
from tests.frames import FrameReader, read_request, write_response

TOPIC = "scripted"
TOPIC_ID = Uuid(bytes(15) + b"\x07")
NODE_ID = 1
PRODUCER_ID = 4000

# A response; None for no response at all; Hangup to close the connection instead.
Answer = Message | None
Handler = Callable[[Any, int], Answer]


class Hangup(Exception):
    """Close the connection without a response."""


class ScriptedBroker:
    """One node with one topic of one partition."""

    def __init__(self) -> None:
        self.port = 0
        self.highest: dict[int, int] = {}
        self.requests: list[tuple[Message, int]] = []
        self.leader_epoch = 0
        self.partitions = 1
        # Batches as they arrived, whatever their sequence.
        self.log: list[BatchView] = []
        self.connections = 0
        self._next_offset = 0
        self.handlers: dict[type[Message], Handler] = {
            ApiVersionsRequest: self.api_versions,
            MetadataRequest: self.metadata,
            InitProducerIdRequest: self.init_producer_id,
            FindCoordinatorRequest: self.find_coordinator,
            ProduceRequest: self.produce,
            ListOffsetsRequest: self.list_offsets,
            FetchRequest: self.fetch,
        }
        self._server: asyncio.Server | None = None
        self._is_stopped = False
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def count(self, kind: type[Message]) -> int:
        """How many requests of this type it has received."""
        return sum(isinstance(request, kind) for request, _ in self.requests)

    def once(self, kind: type[Message], response: Handler) -> None:
        """Set the response to the next request of a type; after that the usual one applies again."""
        usual = self.handlers[kind]

        def first(request: Any, version: int) -> Answer:
            self.handlers[kind] = usual
            return response(request, version)

        self.handlers[kind] = first

    async def start(self) -> None:
        self._is_stopped = False
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop, with all connections; `start` restarts it at the same address."""
        assert self._server is not None
        self._is_stopped = True
        self._server.close()
        self.hang_up()
        await self._server.wait_closed()

    def hang_up(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_stopped:
            # Accepted just before the stop, and served only now.
            writer.transport.abort()
            return
        self.connections += 1
        self._writers.add(writer)
        frames = FrameReader()
        try:
            while data := await reader.read(1 << 16):
                for frame in frames.feed(data):
                    self._answer(frame, writer)
        except (Hangup, ConnectionError):
            writer.transport.abort()
        finally:
            self._writers.discard(writer)
            writer.close()

    def _answer(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        head, request = read_request(frame)
        self.requests.append((request, head.version))
        response = self.handlers[type(request)](request, head.version)
        if response is not None:
            version = head.version
            if isinstance(response, ApiVersionsResponse) and response.error_code:
                version = 0
            self.deliver(writer, type(request), write_response(response, version, head.correlation_id))

    def deliver(self, writer: asyncio.StreamWriter, kind: type[Message], data: bytes) -> None:
        """Send the response to a request of this type."""
        writer.write(data)

    # -------------------------------------------------------------------------------------- default responses

    def api_versions(self, request: ApiVersionsRequest, version: int) -> Answer:
        keys = [
            ApiVersionsResponse.ApiVersion(
                api_key=known.key,
                min_version=known.versions.lowest,
                max_version=min(known.stable, self.highest.get(known.key, known.stable)),
            )
            for known in apis().values()
            if known.stable >= known.versions.lowest
        ]
        known = self.highest.get(18, 4)
        code = ErrorCode.UNSUPPORTED_VERSION if version > known else ErrorCode.NONE
        return ApiVersionsResponse(error_code=code, api_keys=keys)

    def metadata(self, request: MetadataRequest, version: int) -> Answer:
        partitions = [
            MetadataResponse.Partition(
                error_code=0,
                partition_index=number,
                leader_id=NODE_ID,
                leader_epoch=self.leader_epoch,
                replica_nodes=[NODE_ID],
                isr_nodes=[NODE_ID],
            )
            for number in range(self.partitions)
        ]
        topic = MetadataResponse.Topic(error_code=0, name=TOPIC, topic_id=TOPIC_ID, partitions=partitions)
        broker = MetadataResponse.Broker(node_id=NODE_ID, host="127.0.0.1", port=self.port)
        return MetadataResponse(brokers=[broker], cluster_id="c", controller_id=NODE_ID, topics=[topic])

    def init_producer_id(self, request: InitProducerIdRequest, version: int) -> Answer:
        return InitProducerIdResponse(
            throttle_time_ms=0, error_code=0, producer_id=PRODUCER_ID, producer_epoch=0
        )

    def find_coordinator(self, request: FindCoordinatorRequest, version: int) -> Answer:
        found = [
            FindCoordinatorResponse.Coordinator(
                key=key, node_id=NODE_ID, host="127.0.0.1", port=self.port, error_code=0, error_message=None
            )
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=found)

    def take(self, request: ProduceRequest) -> int:
        """Put the batch of a request into the log; its first offset."""
        (topic,) = request.topic_data
        (part,) = topic.partition_data
        assert isinstance(part.records, bytes | bytearray | memoryview)
        data = bytearray(part.records)
        base_offset = self._next_offset
        patch_offsets(data, 0, base_offset, self.leader_epoch)
        batch = BatchView(bytes(data))
        self.log.append(batch)
        self._next_offset = batch.next_offset
        return base_offset

    def produce(self, request: ProduceRequest, version: int) -> Answer:
        return self.produced(0, self.take(request))

    def produced(self, code: int, base_offset: int = -1, throttle_ms: int = 0) -> ProduceResponse:
        part = ProduceResponse.PartitionProduceResponse(index=0, error_code=code, base_offset=base_offset)
        topic = ProduceResponse.TopicProduceResponse(
            name=TOPIC, topic_id=TOPIC_ID, partition_responses=[part]
        )
        return ProduceResponse(responses=[topic], throttle_time_ms=throttle_ms)

    def list_offsets(self, request: ListOffsetsRequest, version: int) -> Answer:
        (asked,) = request.topics[0].partitions
        offset = 0 if asked.timestamp == -2 else self._next_offset
        part = ListOffsetsResponse.PartitionResponse(
            partition_index=0, error_code=0, offset=offset, leader_epoch=self.leader_epoch
        )
        topic = ListOffsetsResponse.TopicResponse(name=TOPIC, partitions=[part])
        return ListOffsetsResponse(topics=[topic])

    def fetch(self, request: FetchRequest, version: int) -> Answer:
        offset = request.topics[0].partitions[0].fetch_offset if request.topics else self._next_offset
        return self.fetched(offset)

    def fetched(self, offset: int, code: int = 0, session_id: int = 0) -> FetchResponse:
        data = b"".join(batch.copy() for batch in self.log if batch.last_offset >= offset)
        part = FetchResponse.PartitionData(
            partition_index=0,
            error_code=code,
            high_watermark=self._next_offset,
            last_stable_offset=self._next_offset,
            log_start_offset=0,
            aborted_transactions=None,
            records=None if code else data,
        )
        topic = FetchResponse.FetchableTopicResponse(topic=TOPIC, topic_id=TOPIC_ID, partitions=[part])
        return FetchResponse(throttle_time_ms=0, session_id=session_id, responses=[topic])


@asynccontextmanager
async def scripted() -> AsyncIterator[ScriptedBroker]:
    broker = ScriptedBroker()
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()
