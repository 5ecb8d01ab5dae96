"""Produce: the responses that Apache Kafka 4.1 gave to the same requests (recorded)."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from fastcrc import crc32

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.batch.compression import Codec
from barnabas.broker.handlers import produce
from barnabas.broker.network.request_context import CloseConnectionError
from barnabas.broker.replicas.transaction_checks import PartitionErrors, TransactionalWrite
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.runtime.loop.promise import Promise
from barnabas.storage.log.names import TopicPartition
from tests.broker.worlds.data_world import (
    T0,
    Forbid,
    World,
    batch_of,
    codes,
    config,
    fetch_request,
    partition_answers,
    produce_request,
    result_of,
    values_in,
)

VERSIONS = range(3, 14)


def with_crc(batch: bytes | bytearray) -> bytearray:
    changed = bytearray(batch)
    changed[17:21] = crc32.iscsi(bytes(changed[21:])).to_bytes(4, "big")
    return changed


def patched(position: int, data: bytes, batch: bytes | bytearray | None = None) -> bytearray:
    changed = bytearray(batch if batch is not None else batch_of(b"a", b"b"))
    changed[position : position + len(data)] = data
    return changed


def world_with_topics() -> World:
    world = World()
    world.topic("orders", 2)
    world.topic("table", cleanup_policy="compact")
    world.topic("small", max_message_bytes="200")
    return world


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
def test_records_are_appended_and_their_offsets_returned(version: int, acks: int) -> None:
    world = world_with_topics()
    answers = world.produce("orders", batch_of(b"a", b"b"), batch_of(b"c"), acks=acks, version=version)
    assert [(one.error_code, one.base_offset) for one in answers] == [(0, 0), (0, 2)]
    assert [one.log_append_time_ms for one in answers] == [-1, -1]
    if version >= 5:
        assert [one.log_start_offset for one in answers] == [0, 0]
    found = partition_answers(world.fetch(fetch_request("orders", {0: 0})))["orders", 0]
    assert values_in(found) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_acks_0_gets_no_response() -> None:
    world = world_with_topics()
    assert world.ask(produce, produce_request("orders", {0: batch_of(b"a")}, acks=0), 12) is None
    assert world.log("orders").end_offset == 1


def test_an_error_with_acks_0_closes_the_connection() -> None:
    world = world_with_topics()
    with pytest.raises(CloseConnectionError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        world.ask(produce, produce_request("nothing", {0: batch_of(b"a")}, acks=0), 12)


def test_acks_of_another_number_are_refused() -> None:
    world = world_with_topics()
    assert codes(world.produce("orders", batch_of(b"a"), acks=5)) == [ErrorCode.INVALID_REQUIRED_ACKS]
    assert world.log("orders").end_offset == 0


# Apache Kafka 4.1.0's response: code, log start offset, message.
BAD_BATCHES: dict[str, tuple[Any, ErrorCode, int, str | None]] = {
    "bad crc": (patched(30, b"\xff"), ErrorCode.CORRUPT_MESSAGE, -1, None),
    "no records": (b"", ErrorCode.INVALID_RECORD, -1, None),
    "two batches": (batch_of(b"a") + batch_of(b"b"), ErrorCode.INVALID_RECORD, -1, None),
    "cut short": (batch_of(b"a")[:-5], ErrorCode.INVALID_RECORD, -1, None),
    "magic 1": (patched(16, b"\1"), ErrorCode.INVALID_RECORD, -1, None),
    "control records": (batch_of(b"a", control=True), ErrorCode.INVALID_RECORD, 0, None),
    "base offset 9": (patched(0, struct.pack(">q", 9)), ErrorCode.INVALID_RECORD, 0, None),
    "wrong count": (
        with_crc(patched(57, struct.pack(">i", 5))),
        ErrorCode.INVALID_RECORD,
        0,
        None,
    ),
    "a negative sequence": (
        batch_of(b"a", producer_id=77, producer_epoch=0, base_sequence=-1),
        ErrorCode.INVALID_RECORD,
        0,
        None,
    ),
    "a length of 0": (
        bytes(20),
        ErrorCode.CORRUPT_MESSAGE,
        -1,
        "Record size 0 is less than the minimum record overhead (14)",
    ),
    "a negative length": (
        patched(8, struct.pack(">i", -5)),
        ErrorCode.CORRUPT_MESSAGE,
        -1,
        "Record size -5 is less than the minimum record overhead (14)",
    ),
    "magic 7": (patched(16, b"\7"), ErrorCode.CORRUPT_MESSAGE, -1, "Invalid magic found in record: 7"),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_a_bad_batch_is_refused_as_apache_kafka_refuses_it(name: str) -> None:
    batch, code, log_start_offset, message = BAD_BATCHES[name]
    world = world_with_topics()
    request = produce_request("orders", {0: batch})
    try:
        answer = world.ask(produce, request, 12).responses[0].partition_responses[0]
    except KafkaError as error:
        refused = produce.refuse(request, error.code, error.message)
        assert refused is not None
        answer = refused.responses[0].partition_responses[0]
    assert ErrorCode(answer.error_code) is code
    assert (answer.log_start_offset, answer.error_message) == (log_start_offset, message)
    assert (answer.base_offset, answer.record_errors) == (-1, [])
    assert world.log("orders").end_offset == 0


@pytest.mark.trap
def test_refusals_that_clients_rely_on() -> None:
    """Trap 20: MESSAGE_TOO_LARGE, INVALID_RECORD (no key on a compacted topic), INVALID_TIMESTAMP."""
    world = world_with_topics()
    (large,) = world.produce("small", batch_of(b"x" * 300))
    assert (large.error_code, large.log_start_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    (keyless,) = world.produce("table", batch_of(b"a", b"b"))
    where = "Compacted topic cannot accept message without key in topic partition table-0"
    assert (keyless.error_code, keyless.log_start_offset) == (ErrorCode.INVALID_RECORD, 0)
    assert [(one.batch_index, one.batch_index_error_message) for one in keyless.record_errors] == [
        (0, where),
        (1, where),
    ]
    assert keyless.error_message == (
        "One or more records have been rejected due to 2 record errors in total, and only showing the first"
        f" three errors at most: [RecordError(batchIndex=0, message='{where}'),"
        f" RecordError(batchIndex=1, message='{where}')]"
    )
    (late,) = world.produce("orders", batch_of(b"a", time=T0 + 2 * 3_600_000))
    assert late.error_code == ErrorCode.INVALID_TIMESTAMP
    assert late.error_message == "One or more records have been rejected due to invalid timestamp"
    assert "is out of range" in str(late.record_errors[0].batch_index_error_message)
    world.change(config("orders", "message.timestamp.after.max.ms", str(3 * 3_600_000)))
    assert codes(world.produce("orders", batch_of(b"a", time=T0 + 2 * 3_600_000))) == [ErrorCode.NONE]


def test_zstd_needs_version_7() -> None:
    world = world_with_topics()
    batch = batch_of(b"a" * 50, codec=Codec.ZSTD)
    assert codes(world.produce("orders", batch, version=6)) == [ErrorCode.UNSUPPORTED_COMPRESSION_TYPE]
    assert codes(world.produce("orders", batch, version=7)) == [ErrorCode.NONE]


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_stored_unchanged(codec: Codec) -> None:
    world = world_with_topics()
    batch = batch_of(*[b"value" * 10] * 5, codec=codec)
    assert codes(world.produce("orders", batch)) == [ErrorCode.NONE]
    found = partition_answers(world.fetch(fetch_request("orders", {0: 0})))["orders", 0]
    assert bytes(found.records)[61:] == bytes(batch)[61:]  # type: ignore[arg-type]  # bytes, once decoded


def test_the_topics_codec_and_time_are_applied() -> None:
    world = World()
    world.topic("packed", compression_type="gzip", message_timestamp_type="LogAppendTime")
    world.clock.now_ms = T0 + 999
    (answer,) = world.produce("packed", batch_of(b"a" * 100, b"b"))
    assert (answer.error_code, answer.log_append_time_ms) == (0, T0 + 999)
    found = partition_answers(world.fetch(fetch_request("packed", {0: 0})))["packed", 0]
    assert values_in(found) == [(0, b"a" * 100), (1, b"b")]
    assert bytes(found.records)[22] == Codec.GZIP | 0x08  # type: ignore[arg-type]  # bytes, once decoded


# Topics


@pytest.mark.parametrize("version", [9, 13])
def test_topics_and_partitions_that_are_not_there(version: int) -> None:
    world = world_with_topics()
    request = produce_request("nothing", {0: batch_of(b"a")})
    if version >= 13:
        request.topic_data[0].topic_id = Uuid(bytes(15) + b"\x99")
    answer = world.ask(produce, request, version).responses[0]
    expected = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(answer.partition_responses) == [expected]
    for index in (2, -1):
        answers = world.produce("orders", batch_of(b"a"), index=index, version=version)
        assert codes(answers) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_request_with_many_partitions_gets_a_result_for_each() -> None:
    world = world_with_topics()
    request = produce_request("orders", {0: batch_of(b"a"), 1: patched(30, b"\xff"), 7: batch_of(b"a")})
    request.topic_data += produce_request("table", {0: batch_of(b"a", key=b"k")}).topic_data
    response = world.ask(produce, request, 12)
    assert [(topic.name, codes(topic.partition_responses)) for topic in response.responses] == [
        ("orders", [ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ("table", [ErrorCode.NONE]),
    ]


def test_of_a_partition_that_is_named_twice_the_last_counts() -> None:
    world = world_with_topics()
    request = produce_request("orders", {0: batch_of(b"first")})
    request.topic_data += produce_request("orders", {0: batch_of(b"second")}).topic_data
    response = world.ask(produce, request, 12)
    assert len(response.responses) == len(response.responses[0].partition_responses) == 1
    assert world.log("orders").end_offset == 1


def test_internal_topics_are_for_the_admin_client_alone() -> None:
    world = World()
    world.topic("__consumer_offsets")
    request = produce_request("__consumer_offsets", {0: batch_of(b"a")})
    answer = world.ask(produce, request, 12)
    assert codes(answer.responses[0].partition_responses) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    answer = world.ask(produce, request, 12, client_id="__admin_client")
    assert codes(answer.responses[0].partition_responses) == [ErrorCode.NONE]


def test_the_metadata_log_is_no_topic() -> None:
    world = World()
    assert codes(world.produce("__cluster_metadata", batch_of(b"a"))) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]


def test_unauthorized_topics_are_refused_individually() -> None:
    world = world_with_topics()
    world.authorizer = Forbid((Operation.WRITE, Resource.TOPIC, "orders"))
    assert codes(world.produce("orders", batch_of(b"a"))) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert codes(world.produce("table", batch_of(b"a", key=b"k"))) == [ErrorCode.NONE]


# KIP-951
def test_the_wrong_broker_returns_the_current_leader() -> None:
    world = World()
    world.topic("orders", replicas=[1, 2], leader=2)
    request = produce_request("orders", {0: batch_of(b"a")})
    response = world.ask(produce, request, 10)
    leader = response.responses[0].partition_responses[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (2, 0)
    assert [(one.node_id, one.host, one.port) for one in response.node_endpoints] == [(2, "host2", 9002)]
    assert world.ask(produce, request, 9).responses[0].partition_responses[0].error_code == 6


# M-D8
def test_too_few_in_sync_replicas() -> None:
    world = World()
    world.topic("orders", replicas=[1, 2], isr=[1], min_insync_replicas="2")
    (answer,) = world.produce("orders", batch_of(b"a"), acks=-1)
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, 0)
    assert codes(world.produce("orders", batch_of(b"a"), acks=1)) == [ErrorCode.NONE]


def test_acks_all_that_do_not_come_time_out() -> None:
    world = World()
    world.topic("orders", replicas=[1, 2], isr=[1, 2])
    request = produce_request("orders", {0: batch_of(b"a")}, acks=-1, timeout_ms=500)
    waiting = world.ask(produce, request, 12)
    world.tick(499)
    assert not waiting.done
    world.tick(1)
    answer = result_of(waiting, 12).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert len(world.replicas.purgatory) == 0


def test_a_producer_that_is_gone_is_not_waited_for() -> None:
    world = World()
    world.topic("orders", replicas=[1, 2], isr=[1, 2])
    context = world.context(0, 12)
    request = produce_request("orders", {0: batch_of(b"a")}, acks=-1, timeout_ms=60_000)
    produce.handle(world, request, context)  # type: ignore[arg-type]  # the test's broker
    assert len(world.replicas.purgatory) == 1
    assert context.on_disconnect is not None
    context.on_disconnect()
    assert len(world.replicas.purgatory) == world.replicas.purgatory.watched_keys == 0


def test_a_produce_with_a_fault_while_it_waits_is_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F5: the client of a delayed produce that failed never got a response."""
    world = World()
    world.topic("orders", replicas=[1, 2], isr=[1, 2])
    waiting = world.ask(produce, produce_request("orders", {0: batch_of(b"a")}, acks=-1), 12)
    errors: list[BaseException] = []
    waiting.then(lambda _: None, errors.append)

    def broken(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(world.replicas, "answer_to", broken)
    world.partition_change("orders", leader=2)
    world.tick()
    assert [str(error) for error in errors] == ["planted"]
    assert len(world.replicas.purgatory) == 0
    assert "a delayed operation failed" in caplog.text


def test_a_leader_that_steps_down_while_acks_are_awaited_says_so() -> None:
    world = World()
    world.topic("orders", replicas=[1, 2], isr=[1, 2])
    waiting = world.ask(produce, produce_request("orders", {0: batch_of(b"a")}, acks=-1), 12)
    world.partition_change("orders", leader=2)
    world.tick()
    answer = result_of(waiting, 12).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader.leader_id == 2


# Idempotence


def sequence(*values: bytes, producer_id: int = 900, epoch: int = 0, first: int) -> bytearray:
    return batch_of(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=first)


@pytest.mark.trap
def test_offsets_are_dense_and_duplicates_keep_theirs() -> None:
    """Trap 13: Offsets dense except where compaction or control records explain a gap.

    The answers are those that Apache Kafka gave to the same requests.
    """
    world = world_with_topics()
    steps = [
        (sequence(b"a", b"b", first=0), ErrorCode.NONE, 0),
        (sequence(b"c", first=2), ErrorCode.NONE, 2),
        (sequence(b"c", first=2), ErrorCode.NONE, 2),  # again
        (sequence(b"a", b"b", first=0), ErrorCode.NONE, 0),
        (sequence(b"z", first=9), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        (sequence(b"z", epoch=1, first=5), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        (sequence(b"d", epoch=1, first=0), ErrorCode.NONE, 3),
        (sequence(b"z", first=3), ErrorCode.INVALID_PRODUCER_EPOCH, -1),
        (sequence(b"e", b"f", producer_id=901, epoch=3, first=7), ErrorCode.NONE, 4),  # KIP-360
        (sequence(b"g", producer_id=901, epoch=3, first=9), ErrorCode.NONE, 6),
        (sequence(b"e", b"f", producer_id=901, epoch=3, first=7), ErrorCode.NONE, 4),
        (sequence(b"h", epoch=1, first=1), ErrorCode.NONE, 7),
    ]
    answers = world.produce("orders", *(batch for batch, _, _ in steps))
    assert [(ErrorCode(one.error_code), one.base_offset) for one in answers] == [step[1:] for step in steps]
    found = partition_answers(world.fetch(fetch_request("orders", {0: 0})))["orders", 0]
    assert values_in(found) == list(enumerate([b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"]))


def test_a_duplicate_gets_its_original_timestamp() -> None:
    world = world_with_topics()
    answers = world.produce("orders", sequence(b"a", first=0), sequence(b"a", first=0))
    assert [one.log_append_time_ms for one in answers] == [-1, T0]


# Transactions: writes are verified with the coordinator before the append (KIP-890)


class Coordinator:
    def __init__(self) -> None:
        self.asked: list[TransactionalWrite] = []
        self.answers: list[Promise[PartitionErrors]] = []

    def verify(self, write: TransactionalWrite) -> Promise[PartitionErrors]:
        self.asked.append(write)
        self.answers.append(Promise())
        return self.answers[-1]


def transactional(transactional_id: str | None = "tx", **by_producer: Any) -> ProduceRequest:
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, **by_producer}
    request = produce_request("orders", {0: batch_of(b"a", transactional=True, **fields)})
    request.transactional_id = transactional_id
    return request


def test_a_transactional_batch_needs_a_transactional_id() -> None:
    world = world_with_topics()
    with pytest.raises(KafkaError) as refused:
        world.ask(produce, transactional(None), 12)
    assert refused.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    response = produce.refuse(transactional(None), refused.value.code, refused.value.message)
    assert response is not None
    assert response.responses[0].partition_responses[0].error_message is None


def test_without_a_coordinator_the_client_tries_again() -> None:
    world = world_with_topics()
    answer = result_of(world.ask(produce, transactional(), 12), 12).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert answer.error_message == (
        "Unable to verify the partition has been added to the transaction."
        " Underlying error: COORDINATOR_NOT_AVAILABLE"
    )
    assert world.log("orders").end_offset == 0


def test_the_append_waits_for_the_verification() -> None:
    world = world_with_topics()
    world.replicas.verifier = coordinator = Coordinator()
    request = transactional()
    buffer = bytearray(request.encode(12))
    wire = ProduceRequest.decode(buffer, 12)
    waiting = produce.handle(world, wire, world.context(0, 12))  # type: ignore[arg-type]  # the test's broker
    buffer[:] = bytes(len(buffer))  # the receive buffer is used again
    (asked,) = coordinator.asked
    assert (asked.transactional_id, asked.producer_id, asked.may_add) == ("tx", 5, True)
    assert world.log("orders").end_offset == 0
    coordinator.answers[0].set({TopicPartition("orders", 0): ErrorCode.NONE})
    answer = result_of(waiting, 12).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, 0)
    # The next batch of the transaction needs no verification: the log knows it.
    result_of(world.ask(produce, transactional(base_sequence=1), 12), 12)
    assert len(coordinator.asked) == 1
    assert world.log("orders").end_offset == 2
    assert world.log("orders").last_stable_offset == 0


def test_a_failed_verification_is_returned() -> None:
    world = world_with_topics()
    world.replicas.verifier = coordinator = Coordinator()
    for code, reported in (
        (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ):
        waiting = world.ask(produce, transactional(), 11)
        coordinator.answers[-1].set({TopicPartition("orders", 0): code})
        assert codes(result_of(waiting, 11).responses[0].partition_responses) == [reported]
    assert not coordinator.asked[-1].may_add
    assert world.log("orders").end_offset == 0


def test_a_transactional_request_has_one_producer() -> None:
    world = world_with_topics()
    request = transactional()
    other = batch_of(b"a", transactional=True, producer_id=6, producer_epoch=0, base_sequence=0)
    request.topic_data[0].partition_data.append(ProduceRequest.PartitionProduceData(index=1, records=other))
    with pytest.raises(KafkaError) as refused:
        world.ask(produce, request, 12)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
