"""The short way of produce: the same bytes as the usual way, or none of its business."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.batch.compression import Codec
from barnabas.broker.handlers import produce
from barnabas.broker.network.request_context import Deferred
from barnabas.broker.replicas.transaction_checks import PartitionErrors, TransactionalWrite
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.runtime.loop.promise import Promise
from barnabas.storage.log.names import TopicPartition
from tests.broker.worlds.data_world import Forbid, World, batch_of, produce_request

VERSIONS = range(3, 14)


def world_with_topics() -> World:
    world = World()
    world.topic("orders", 2)
    world.topic("table", cleanup_policy="compact")
    world.topic("__consumer_offsets")
    world.topic("replicated", replicas=[1, 2])
    world.topic("alone", replicas=[1, 2], isr=[1])
    world.topic("too few", replicas=[1, 2], isr=[1], min_insync_replicas="2")
    world.topic("flushed", flush_messages="1")
    world.topic("elsewhere", replicas=[2], leader=2)
    return world


def request_of(
    world: World, version: int, topic: str, batch: Any, index: int = 0, **fields: Any
) -> ProduceRequest:
    request = produce_request(topic, {index: batch}, **fields)
    if version >= 13:
        request.topic_data[0].name = ""
        request.topic_data[0].topic_id = world.image.topic_ids.get(topic, Uuid(bytes(15) + b"\x99"))
    return request


def by_quick(world: World, request: ProduceRequest, version: int, tail: bytes = b"") -> bytes | None:
    frame = memoryview(bytearray(b"head" + request.encode(version) + tail))
    pieces = produce.quick(world, frame, 4, world.context(0, version))  # type: ignore[arg-type]  # the test's broker
    assert not isinstance(pieces, Deferred)
    return None if pieces is None else b"".join(pieces)  # type: ignore[arg-type]  # no slices


def by_handle(world: World, request: ProduceRequest, version: int) -> bytes:
    wire = ProduceRequest.decode(bytearray(request.encode(version)), version)
    try:
        answer = produce.handle(world, wire, world.context(0, version))  # type: ignore[arg-type]  # the test's broker
    except KafkaError as error:
        answer = produce.refuse(wire, error.code, error.message)
    assert isinstance(answer, ProduceResponse)
    return answer.encode(version)


SIMPLE: dict[str, Any] = {
    "one record": batch_of(b"a"),
    "many records": batch_of(*[b"x" * 100] * 200),
    "compressed": batch_of(b"a" * 1000, codec=Codec.LZ4),
    "idempotent": batch_of(b"a", producer_id=5, producer_epoch=0, base_sequence=0),
    "bad crc": bytes(batch_of(b"a"))[:-1] + b"x",
    "base offset 9": struct.pack(">q", 9) + bytes(batch_of(b"a"))[8:],
    "out of order": batch_of(b"a", producer_id=5, producer_epoch=0, base_sequence=7),
    "too late": batch_of(b"a", time=2**50),
    "too large": batch_of(b"a" * 2_000_000),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", SIMPLE)
def test_the_same_answer_as_the_usual_way(version: int, name: str) -> None:
    quick, usual = world_with_topics(), world_with_topics()
    for acks in (1, -1):
        for _ in range(2):  # the second time the segment is in use, and a sequence is a duplicate
            request = request_of(quick, version, "orders", SIMPLE[name], acks=acks)
            assert by_quick(quick, request, version) == by_handle(usual, request, version)
    for index in (0, 1):
        logs = [world.log("orders", index) for world in (quick, usual)]
        assert logs[0].end_offset == logs[1].end_offset
        assert quick.disk.read_bytes(f"/data/orders-{index}/{0:020}.log") == usual.disk.read_bytes(
            f"/data/orders-{index}/{0:020}.log"
        )


def test_a_refused_record_is_told_in_the_same_words() -> None:
    quick, usual = world_with_topics(), world_with_topics()
    for version in VERSIONS:
        request = request_of(quick, version, "table", batch_of(b"a", b"b"))
        assert by_quick(quick, request, version) == by_handle(usual, request, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_followers_that_nobody_waits_for_do_not_change_the_way(version: int) -> None:
    """acks=1 waits for no follower; acks=all not if the ISR is the leader alone, or is refused at once."""
    quick, usual = world_with_topics(), world_with_topics()
    for topic, acks in (("replicated", 1), ("alone", 1), ("alone", -1), ("too few", 1), ("too few", -1)):
        request = request_of(quick, version, topic, batch_of(b"a"), acks=acks)
        assert by_quick(quick, request, version) == by_handle(usual, request, version)
    for topic in ("replicated", "alone", "too few"):
        logs = [world.log(topic) for world in (quick, usual)]
        assert [log.end_offset for log in logs] == [2 if topic == "alone" else 1] * 2
        assert logs[0].high_watermark == logs[1].high_watermark
    assert quick.log("replicated").high_watermark == 0
    assert quick.log("alone").high_watermark == 2


def deferred(world: World, request: ProduceRequest, version: int) -> list[bytes]:
    """Where the bytes will be that a request by the short way is answered with."""
    frame = memoryview(bytearray(request.encode(version)))
    answered: list[bytes] = []
    found = produce.quick(world, frame, 0, world.context(0, version))  # type: ignore[arg-type]  # the test's broker
    assert isinstance(found, Deferred)
    found.answer.then(
        lambda answer: answered.append(answer.encode(version)), lambda error: pytest.fail(str(error))
    )
    return answered


@pytest.mark.parametrize("version", VERSIONS)
def test_what_must_wait_is_appended_and_waits_in_the_purgatory(version: int) -> None:
    quick, usual = world_with_topics(), world_with_topics()
    request = request_of(quick, version, "replicated", batch_of(b"a", b"b"), acks=-1)
    answers = [deferred(quick, request, version)]
    wire = ProduceRequest.decode(bytearray(request.encode(version)), version)
    promise = produce.handle(usual, wire, usual.context(0, version))  # type: ignore[arg-type]  # the test's broker
    assert isinstance(promise, Promise)
    answers.append([])
    promise.then(
        lambda answer: answers[1].append(answer.encode(version) if answer is not None else b""),
        lambda error: pytest.fail(str(error)),
    )
    for world in (quick, usual):
        world.tick()
        assert answers == [[], []]
        assert (world.log("replicated").end_offset, world.log("replicated").high_watermark) == (2, 0)
    for world in (quick, usual):
        hosted = world.replicas.partitions[TopicPartition("replicated", 0)]
        follower = hosted.follower(2, knows_epoch=True)
        now_ns = world.clock.monotonic_ns()
        assert hosted.follower_fetched(follower, 2, log_start_offset=0, broker_epoch=100, now_ns=now_ns)
        world.replicas.purgatory.changed(hosted)
        world.tick()
        assert world.log("replicated").high_watermark == 2
    assert len(answers[0]) == 1
    assert answers[0] == answers[1]


def test_a_flush_is_waited_for() -> None:
    world = world_with_topics()
    answered = deferred(world, request_of(world, 12, "flushed", batch_of(b"a")), 12)
    world.tick()
    assert answered == []
    world.work()
    world.tick()
    assert len(answered) == 1
    assert world.log("flushed").high_watermark == 1


def test_what_waits_too_long_is_answered_that_it_did() -> None:
    world = world_with_topics()
    request = request_of(world, 12, "replicated", batch_of(b"a"), acks=-1, timeout_ms=700)
    answered = deferred(world, request, 12)
    world.tick(701)
    response = ProduceResponse.decode(answered[0], 12)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_not_simple_is_left_to_the_usual_way(version: int) -> None:
    world = world_with_topics()
    plain = batch_of(b"a")
    many = request_of(world, version, "orders", plain)
    many.topic_data[0].partition_data.append(ProduceRequest.PartitionProduceData(index=1, records=plain))
    topics = request_of(world, version, "orders", plain)
    topics.topic_data += request_of(world, version, "table", plain).topic_data
    named = request_of(world, version, "orders", plain)
    named.transactional_id = "tx"
    transactional = batch_of(b"a", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    requests = [
        many,
        topics,
        named,
        request_of(world, version, "orders", plain, acks=0),
        request_of(world, version, "orders", plain, acks=5),
        request_of(world, version, "orders", plain, index=7),
        request_of(world, version, "nothing", plain),
        request_of(world, version, "elsewhere", plain),
        request_of(world, version, "__consumer_offsets", plain),
        request_of(world, version, "orders", transactional),
        request_of(world, version, "orders", batch_of(b"a", control=True)),
        request_of(world, version, "orders", plain + plain),
        request_of(world, version, "orders", plain[:-1]),
        request_of(world, version, "orders", b""),
        request_of(world, version, "orders", None),
        request_of(world, version, "orders", bytes(plain[:16]) + b"\1" + bytes(plain[17:])),
        ProduceRequest(acks=1, timeout_ms=1, topic_data=[]),
    ]
    for request in requests:
        assert by_quick(world, request, version) is None
    world.authorizer = Forbid((Operation.WRITE, Resource.TOPIC, "orders"))
    assert by_quick(world, request_of(world, version, "orders", plain), version) is None
    assert world.log("orders").end_offset == 0


def test_zstd_of_an_old_version_is_left_to_the_usual_way() -> None:
    world = world_with_topics()
    batch = batch_of(b"a" * 100, codec=Codec.ZSTD)
    assert by_quick(world, request_of(world, 6, "orders", batch), 6) is None
    assert by_quick(world, request_of(world, 7, "orders", batch), 7) is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_is_cut_off_or_goes_on_is_left_to_the_usual_way(version: int) -> None:
    world = world_with_topics()
    whole = request_of(world, version, "orders", batch_of(b"a")).encode(version)
    context = world.context(0, version)
    for size in range(len(whole)):
        assert produce.quick(world, memoryview(bytearray(whole[:size])), 0, context) is None  # type: ignore[arg-type]
    assert by_quick(world, request_of(world, version, "orders", batch_of(b"a")), version, tail=b"x") is None
    for position in range(min(len(whole), 60)):
        for byte in (0x00, 0x7F, 0x80, 0xFF):
            changed = bytearray(whole)
            changed[position] = byte
            produce.quick(world, memoryview(changed), 0, context)  # type: ignore[arg-type]  # it must not raise


class Yes:
    """A coordinator that knows of every partition."""

    def verify(self, write: TransactionalWrite) -> Promise[PartitionErrors]:
        return Promise.of(dict.fromkeys(write.partitions, ErrorCode.NONE))


def in_transaction(world: World, version: int, sequence: int, epoch: int = 0) -> ProduceRequest:
    batch = batch_of(
        b"a", producer_id=5, producer_epoch=epoch, base_sequence=sequence, transactional=sequence >= 0
    )
    request = request_of(world, version, "orders", batch)
    request.transactional_id = "payments"
    return request


def by_handle_later(world: World, request: ProduceRequest, version: int) -> bytes:
    wire = ProduceRequest.decode(bytearray(request.encode(version)), version)
    answers: list[Any] = []
    promise = produce.handle(world, wire, world.context(0, version))  # type: ignore[arg-type]  # the test's broker
    promise.then(answers.append, answers.append)  # type: ignore[union-attr]  # the coordinator may be asked
    return bytes(answers[0].encode(version))


@pytest.mark.parametrize("version", range(9, 14))
def test_what_goes_on_in_a_transaction_is_answered_and_what_begins_one_is_not(version: int) -> None:
    quick, usual = world_with_topics(), world_with_topics()
    quick.replicas.verifier = usual.replicas.verifier = Yes()
    first = in_transaction(quick, version, 0)
    assert by_quick(quick, first, version) is None  # the coordinator has to be asked
    assert by_handle_later(quick, first, version) == by_handle_later(usual, first, version)
    for sequence in (1, 2):
        request = in_transaction(quick, version, sequence)
        assert by_quick(quick, request, version) == by_handle_later(usual, request, version)
    for sequence in (2, 9):  # a duplicate, and one that is out of order
        request = in_transaction(quick, version, sequence)
        assert by_quick(quick, request, version) == by_handle_later(usual, request, version)
    for other in (in_transaction(quick, version, 0, epoch=1), in_transaction(quick, version, -1)):
        assert by_quick(quick, other, version) is None
    unnamed = in_transaction(quick, version, 3)
    unnamed.transactional_id = None
    assert by_quick(quick, unnamed, version) is None
    quick.authorizer = Forbid((Operation.WRITE, Resource.TRANSACTIONAL_ID, "payments"))
    assert by_quick(quick, in_transaction(quick, version, 3), version) is None
    logs = [world.log("orders") for world in (quick, usual)]
    assert logs[0].end_offset == logs[1].end_offset == 3
    assert logs[0].last_stable_offset == logs[1].last_stable_offset == 0
    assert quick.disk.read_bytes(f"/data/orders-0/{0:020}.log") == usual.disk.read_bytes(
        f"/data/orders-0/{0:020}.log"
    )
