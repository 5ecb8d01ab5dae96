"""A broker's data side without a network: replicas on a disk in memory, metadata by hand, a clock that tests move."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.batch.view import BatchView, batches
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.quotas.client_quotas import Quotas
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.security.authorizer import AllowEverything, Authorizer, Operation, Resource
from barnabas.config.node.node import Node, read_node
from barnabas.config.settings import Settings
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, ConfigResource, Image
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from barnabas.protocol.messages.alter_partition import AlterPartitionResponse
from barnabas.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponse
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.primitives import record_view
from barnabas.protocol.records import metadata as records
from barnabas.protocol.schema import Message
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.disk.watched_disk import WatchedDisk
from barnabas.runtime.loop.loop_guard import LoopGuard
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import Timers
from barnabas.runtime.network.network import Address
from barnabas.runtime.random import SeededRandom
from barnabas.storage.directories.log_dirs import LogDirs
from tests.broker.worlds.no_quotas import Unlimited
from tests.broker.worlds.steps import begun

T0 = 1_700_000_000_000
BROKER = 1
SETTLING_TICKS = 10
DIRECTORY = Uuid(bytes(15) + b"\x21")
OTHER_DIRECTORY = Uuid(bytes(15) + b"\x22")


class HandClock:
    def __init__(self) -> None:
        self.now_ms = T0

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000


class HandWorkers:
    """Work waits until the test runs it."""

    def __init__(self) -> None:
        self.is_at_work = False
        self.waiting: list[tuple[Callable[[], object], Callable[[object, BaseException | None], None]]] = []

    def submit(
        self, work: Callable[[], object], done: Callable[[object, BaseException | None], None], /
    ) -> None:
        self.waiting.append((work, done))

    def run(self) -> int:
        waiting, self.waiting = self.waiting, []
        for work, done in waiting:
            result, error = self._do(work)
            done(result, error)
        return len(waiting)

    def _do(self, work: Callable[[], object]) -> tuple[object, BaseException | None]:
        self.is_at_work = True
        try:
            return work(), None
        except Exception as error:
            return None, error
        finally:
            self.is_at_work = False


class HandController:
    """Notes what it is asked; answers as its fields say."""

    def __init__(self) -> None:
        self.asked: list[Message] = []
        self.answers: list[Promise[Message]] = []
        self.next_producer_id = 0
        self.producer_ids_error = 0
        self.holds_answers = False

    def send_request(self, request: Message, version: int, principal: str) -> Promise[Message]:
        self.asked.append(request)
        assert type(request).decode(request.encode(version), version) == request
        promise: Promise[Message] = Promise()
        if self.holds_answers:
            self.answers.append(promise)
        else:
            promise.set(self._answer(request))
        return promise

    def _answer(self, request: Any) -> Message:
        name = type(request).__name__
        if name == "AllocateProducerIdsRequest":
            if self.producer_ids_error:
                return AllocateProducerIdsResponse(
                    throttle_time_ms=0,
                    error_code=self.producer_ids_error,
                    producer_id_start=-1,
                    producer_id_len=0,
                )
            start = self.next_producer_id
            self.next_producer_id += 1000
            return AllocateProducerIdsResponse(
                throttle_time_ms=0, error_code=0, producer_id_start=start, producer_id_len=1000
            )
        if name == "AlterPartitionRequest":
            return AlterPartitionResponse(
                throttle_time_ms=0,
                error_code=0,
                topics=[
                    AlterPartitionResponse.TopicData(
                        topic_id=topic.topic_id,
                        partitions=[
                            AlterPartitionResponse.PartitionData(
                                partition_index=one.partition_index,
                                error_code=0,
                                leader_id=request.broker_id,
                                leader_epoch=one.leader_epoch,
                                isr=[state.broker_id for state in one.new_isr_with_epochs],
                                partition_epoch=one.partition_epoch + 1,
                            )
                            for one in topic.partitions
                        ],
                    )
                    for topic in request.topics
                ],
            )
        assert name == "AssignReplicasToDirsRequest", name
        return AssignReplicasToDirsResponse(throttle_time_ms=0, error_code=0, directories=[])


# In a `Forbid`: the question whether any resource of a kind may be used.
ANY_NAME = "(any)"


class Forbid:
    """An authorizer that forbids some operations."""

    def __init__(self, *forbidden: tuple[Operation, Resource, str]) -> None:
        self.forbidden = forbidden

    def may_call(self, context: RequestContext, api: object) -> bool:
        return True

    def allows(
        self,
        context: RequestContext,
        operation: Operation,
        resource: Resource,
        name: str,
        *,
        quiet: bool = False,
    ) -> bool:
        return (operation, resource, name) not in self.forbidden

    def allows_any(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        return (operation, resource, ANY_NAME) not in self.forbidden

    def authorized_operations(self, context: RequestContext, resource: Resource, name: str) -> int:
        return 0

    def acls(self) -> None:
        return None

    def load(self, image: object) -> None:
        """It has no rules to take from it."""

    def apply(self, delta: object) -> None:
        """As above."""


class World:
    """Broker 1 of a cluster; what its handlers see of a broker."""

    def __init__(
        self,
        *,
        disk: Disk | None = None,
        dirs: Sequence[str] = ("/data",),
        options: dict[str, str] | None = None,
        start: bool = True,
    ) -> None:
        given = {
            "process.roles": "broker,controller",
            "node.id": str(BROKER),
            "controller.quorum.voters": f"{BROKER}@localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "log.dirs": ",".join(dirs),
            "log.index.size.max.bytes": "12000",
            "log.initial.task.delay.ms": "0",
            **(options or {}),
        }
        self.node: Node = read_node(given)
        self.settings: Settings = self.node.settings
        self.clock = HandClock()
        self.random = SeededRandom(7)
        self.disk: Disk = disk if disk is not None else MemoryDisk(clock=self.clock)
        self.timers = Timers()
        self.workers = HandWorkers()
        self.metadata = HandController()
        self.broker_epoch = 100
        self.image: Image = EMPTY_IMAGE
        self.authorizer: Authorizer = AllowEverything()
        self.quotas: Quotas = Unlimited()
        self.failed_dirs: list[str] = []
        self._tick_end: list[Callable[[], None]] = []
        self._topics = 0
        log_dirs = LogDirs(self.disk, dirs)
        log_dirs.open()
        self.directory_ids = dict(zip(dirs, (DIRECTORY, OTHER_DIRECTORY), strict=False))
        # No sync on the loop, from the start of the replicas to their stop (F9, F14).
        self.guard = LoopGuard(lambda: not self.workers.is_at_work, raises=True)
        self.guard.is_armed = True
        self.replicas = ReplicaManager(
            self,  # its channel and clock are ours
            WatchedDisk(self.disk, self.guard.watch),
            log_dirs,
            self.directory_ids,
            timers=self.timers,
            workers=self.workers,
            at_tick_end=self._tick_end.append,
        )
        self.replicas.on_dir_failed.append(lambda path, directory_id: self.failed_dirs.append(path))
        self.change(*(register(one) for one in (BROKER, 2, 3)))
        if start:
            self.start()

    def start(self) -> None:
        done = self.replicas.start()
        while not done.done:
            self.workers.run()
            self.tick(1)
        done.then(lambda _: None, _raise)

    def settle(self) -> None:
        """Let workers and loop do what they have to, until nothing is left but what waits for its time."""
        for _ in range(SETTLING_TICKS):
            self.tick(1)
            self.workers.run()
        self.tick(1)

    def stop(self) -> None:
        """Close every log; the disk is as a broker leaves it that stopped cleanly."""
        done = self.replicas.stop()
        self.work()
        assert done.done
        done.then(lambda _: None, _raise)

    # Time

    def tick(self, ms: int = 0) -> None:
        """Let time pass, fire timers, end the tick."""
        self.clock.now_ms += ms
        self.timers.fire_due(self.clock.monotonic_ns())
        while self._tick_end:
            actions, self._tick_end[:] = list(self._tick_end), []
            for action in actions:
                action()

    def work(self) -> None:
        """Run what waits for workers, until nothing does."""
        while self.workers.run():
            self.tick()

    # Metadata

    def change(self, *changes: Message) -> None:
        delta = Delta(self.image)
        for change in changes:
            delta.replay(change)
        delta.at(self.image.offset + len(changes), 1, self.clock.wall_ms())
        self.image = delta.image
        self.replicas.apply(delta)

    def topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replicas: Sequence[int] = (BROKER,),
        isr: Sequence[int] | None = None,
        leader: int = BROKER,
        directory: Uuid = DIRECTORY,
        **configs: str,
    ) -> Uuid:
        """Create a topic; options with `_` for `.`."""
        self._topics += 1
        topic_id = Uuid(bytes(14) + self._topics.to_bytes(2, "big"))
        changes: list[Message] = [records.TopicRecord(name=name, topic_id=topic_id)]
        changes += [config(name, key.replace("_", "."), value) for key, value in configs.items()]
        changes += [
            records.PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=list(replicas if isr is None else isr),
                removing_replicas=[],
                adding_replicas=[],
                leader=leader,
                leader_epoch=0,
                partition_epoch=0,
                directories=[directory] * len(replicas),
            )
            for index in range(partitions)
        ]
        self.change(*changes)
        return topic_id

    def partition_change(self, topic: str, index: int = 0, **fields: Any) -> None:
        topic_id = self.image.topic_ids[topic]
        self.change(records.PartitionChangeRecord(partition_id=index, topic_id=topic_id, **fields))

    def context(self, api_key: int, version: int, client_id: str = "test") -> RequestContext:
        return RequestContext(
            api_key,
            version,
            1,
            client_id,
            principal="User:ANONYMOUS",
            listener="PLAINTEXT",
            peer=Address("127.0.0.1", 50000),
            received_ns=0,
        )

    # Requests

    def ask(self, handler: Any, request: Message, version: int, client_id: str = "test") -> Any:
        """Through the codec, as a client's request would come; a Promise comes back as it is."""
        wire = type(request).decode(bytearray(request.encode(version)), version)
        answer = begun(handler.handle(self, wire, self.context(handler.KEY, version, client_id)))
        return through_codec(answer, version)

    def produce(
        self, topic: str, *batch_list: bytes | bytearray, index: int = 0, acks: int = 1, version: int = 12
    ) -> list[ProduceResponse.PartitionProduceResponse]:
        """One request for each batch; the answer of the one partition to each."""
        from barnabas.broker.handlers import produce

        answers = []
        for batch in batch_list:
            request = produce_request(topic, {index: batch}, acks=acks)
            if version >= 13:
                request.topic_data[0].topic_id = self.image.topic_ids[topic]
            answer = self.ask(produce, request, version)
            answers.append(answer.responses[0].partition_responses[0])
        return answers

    def fetch(self, request: FetchRequest, version: int = 12) -> Any:
        from barnabas.broker.handlers import fetch

        return self.ask(fetch, request, version)

    def log(self, topic: str, index: int = 0) -> Any:
        found = self.replicas.partitions[topic, index].log
        assert found is not None
        return found


def _raise(error: BaseException) -> None:
    raise error


def through_codec(answer: Any, version: int) -> Any:
    if isinstance(answer, Promise) or answer is None:
        return answer
    return type(answer).decode(answer.encode(version), version)


def result_of(promise: Any, version: int) -> Any:
    """What a promise was kept with; it must have been."""
    assert isinstance(promise, Promise), promise
    assert promise.done
    found: list[Any] = []
    promise.then(found.append, _raise)
    return through_codec(found[0], version)


def register(broker_id: int, *, epoch: int = 100, fenced: bool = False) -> Message:
    return records.RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=Uuid(bytes(15) + bytes([broker_id])),
        broker_epoch=epoch,
        end_points=[
            records.RegisterBrokerRecord.BrokerEndpoint(
                name="PLAINTEXT", host=f"host{broker_id}", port=9000 + broker_id, security_protocol=0
            )
        ],
        features=[],
        rack=None,
        fenced=fenced,
        log_dirs=[DIRECTORY],
    )


def config(topic: str, name: str, value: str | None) -> Message:
    return records.ConfigRecord(
        resource_type=ConfigResource.TOPIC, resource_name=topic, name=name, value=value
    )


def batch_of(*values: bytes | None, key: bytes | None = None, time: int = T0, **fields: Any) -> bytearray:
    """A client's batch with these values."""
    rows = [Record(index, time + index, key, value) for index, value in enumerate(values)]
    return build(rows, **fields)


def produce_request(
    topic: str, by_index: dict[int, bytes | bytearray | None], *, acks: int = 1, timeout_ms: int = 1000
) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=topic,
                partition_data=[
                    ProduceRequest.PartitionProduceData(index=index, records=batch)
                    for index, batch in by_index.items()
                ],
            )
        ],
    )


def fetch_request(
    topic: str,
    offsets: dict[int, int],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 2**31 - 1,
    partition_max_bytes: int = 1 << 20,
    **fields: Any,
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[
            FetchRequest.Topic(
                topic=topic,
                partitions=[
                    FetchRequest.Partition(
                        partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes
                    )
                    for index, offset in offsets.items()
                ],
            )
        ],
        **fields,
    )


def partition_answers(response: FetchResponse) -> dict[tuple[str, int], FetchResponse.PartitionData]:
    return {
        (topic.topic, one.partition_index): one for topic in response.responses for one in topic.partitions
    }


def batches_in(data: FetchResponse.PartitionData) -> list[BatchView]:
    return list(batches(bytes(record_view(data.records))))


def values_in(data: FetchResponse.PartitionData) -> list[tuple[int, bytes | None]]:
    """Offset and value of every record."""
    return [(record.offset, record.value) for batch in batches_in(data) for record in batch.records()]


def codes(answers: Iterable[Any]) -> list[ErrorCode]:
    return [ErrorCode(one.error_code) for one in answers]
