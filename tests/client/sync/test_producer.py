"""The blocking producer beside a scripted broker: what raises at once, what waits, and for whom."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.client import errors as client_errors
from barnabas.client.serialization import STRING
from barnabas.client.sync import Producer
from barnabas.client.sync import inbox as inbox_module
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.runtime.loop import loop_thread
from barnabas.runtime.loop.loop_thread import LoopThread
from tests.client.scripted import TOPIC, ScriptedBroker

# Longer than any test may take: waiting for it fails the test.
FOR_EVER_MS = 600_000
PATIENCE_S = 60
QUICK: dict[str, Any] = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20, "max_block_ms": FOR_EVER_MS}


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """On a loop of its own, as the test blocks."""
    thread = LoopThread("scripted")
    broker = ScriptedBroker()
    thread.run(broker.start())
    try:
        yield broker
    finally:
        thread.run(broker.stop())
        thread.end()


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        ((None, b"x"), {}, TypeError),
        ((b"t", b"x"), {}, TypeError),
        (("", b"x"), {}, client_errors.InvalidTopicError),
        (("two words", b"x"), {}, client_errors.InvalidTopicError),
        (("x" * 250, b"x"), {}, client_errors.InvalidTopicError),
        ((TOPIC, "text"), {}, TypeError),
        ((TOPIC, b"x", 7), {}, TypeError),
        ((TOPIC, b"x"), {"partition": "0"}, TypeError),
        ((TOPIC, b"x"), {"partition": -1}, ValueError),
        ((TOPIC, b"x"), {"partition": 2**31}, ValueError),
        ((TOPIC, b"x"), {"timestamp_ms": -1}, ValueError),
        ((TOPIC, b"x"), {"timestamp_ms": 1.5}, TypeError),
        ((TOPIC, b"x"), {"headers": {"name": "text"}}, TypeError),
        ((TOPIC, b"x"), {"on_delivery": "a function"}, TypeError),
    ],
)
@pytest.mark.parametrize("is_warm", [False, True])
def test_invalid_arguments_raise_in_send(
    broker: ScriptedBroker, arguments: Any, options: Any, error: type[Exception], is_warm: bool
) -> None:
    """send("t", "text") failed silently: only a caller of result() saw the error."""
    with Producer(bootstrap_servers=broker.bootstrap, **QUICK) as producer:
        if is_warm:
            producer.send(TOPIC, b"first").result(PATIENCE_S)
        with pytest.raises(error):
            producer.send(*arguments, **options)
        producer.send(TOPIC, b"last").result(PATIENCE_S)
    names = {
        topic.name
        for request, _ in broker.requests
        if isinstance(request, MetadataRequest)
        for topic in request.topics or ()
    }
    assert names == {TOPIC}, "no other name was asked for"


def test_serializers_accept_their_types(broker: ScriptedBroker) -> None:
    with Producer(
        bootstrap_servers=broker.bootstrap, value_serializer=STRING, key_serializer=str.encode, **QUICK
    ) as producer:
        assert producer.send(TOPIC, "text", "key").result(PATIENCE_S).offset == 0


class _Encode:
    """An interceptor that turns text into bytes."""

    def on_send(self, record: Any) -> Any:
        from dataclasses import replace

        return replace(record, value=record.value.encode())


def test_interceptors_come_before_the_check(broker: ScriptedBroker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap, interceptor_classes=[_Encode()], **QUICK) as producer:
        assert producer.send(TOPIC, "text").result(PATIENCE_S).offset == 0


@pytest.mark.parametrize("is_warm", [False, True])
def test_a_missing_partition_delays_no_other(broker: ScriptedBroker, is_warm: bool) -> None:
    """A record for an unknown partition kept all later ones waiting for max.block.ms."""
    with Producer(bootstrap_servers=broker.bootstrap, **QUICK) as producer:
        if is_warm:
            producer.send(TOPIC, b"first").result(PATIENCE_S)
        waiting = [producer.send(TOPIC, b"%d" % number, partition=1) for number in range(3)]
        producer.send(TOPIC, b"other", partition=0).result(PATIENCE_S)
        assert not any(one.done for one in waiting)
        broker.partitions = 2
        produced: list[bytes | None] = []
        _answer_for_any_partition(broker, produced)
        for one in waiting:
            assert one.result(PATIENCE_S).partition == 1
        assert produced == [b"0", b"1", b"2"], "in the order in which they were sent"


def _answer_for_any_partition(broker: ScriptedBroker, produced: list[bytes | None]) -> None:
    from barnabas.batch.view import BatchView
    from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse

    def produce(request: ProduceRequest, version: int) -> ProduceResponse:
        response = broker.produced(0, 0)
        (part,) = request.topic_data[0].partition_data
        assert isinstance(part.records, bytes | bytearray | memoryview)
        produced.extend(record.value for record in BatchView(bytes(part.records)).records())
        response.responses[0].partition_responses[0].index = part.index
        return response

    broker.handlers[ProduceRequest] = produce


def test_a_missing_topic_delays_no_other(broker: ScriptedBroker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap, **QUICK) as producer:
        waiting = producer.send("elsewhere", b"x")
        assert producer.send(TOPIC, b"other").result(PATIENCE_S).offset == 0
        assert not waiting.done
        with pytest.raises(client_errors.KafkaTimeoutError, match="1 records are still undelivered"):
            producer.flush(timeout_ms=1)
        with pytest.raises(
            client_errors.UndeliveredError, match="1 record was not delivered: 1 for elsewhere"
        ):
            producer.close(timeout_ms=1)
        with pytest.raises(client_errors.KafkaTimeoutError, match="closed before"):
            raise waiting.error or AssertionError("there is no error")


def test_records_of_a_missing_topic_time_out_together(broker: ScriptedBroker) -> None:
    """Each record has max.block.ms from when it was given, not from when those before it have failed."""
    options = {**QUICK, "max_block_ms": 300}
    with Producer(bootstrap_servers=broker.bootstrap, **options) as producer:
        waiting = [producer.send("elsewhere", b"x") for _ in range(1000)]
        for one in waiting:
            with pytest.raises(client_errors.KafkaTimeoutError, match="elsewhere"):
                one.result(PATIENCE_S)


def test_records_that_wait_for_their_topic_keep_their_order(broker: ScriptedBroker) -> None:
    unknown = MetadataResponse(brokers=[], topics=[])
    usual = broker.handlers[MetadataRequest]
    broker.handlers[MetadataRequest] = lambda *_: unknown
    with Producer(bootstrap_servers=broker.bootstrap, **QUICK) as producer:
        early = [producer.send(TOPIC, b"%d" % number) for number in range(50)]
        broker.handlers[MetadataRequest] = usual
        late = [producer.send(TOPIC, b"%d" % number) for number in range(50, 100)]
        assert [one.result(PATIENCE_S).offset for one in (*early, *late)] == list(range(100))
    values = [record.value for batch in broker.log for record in batch.records()]
    assert values == [b"%d" % number for number in range(100)]


def test_waiting_for_a_result_does_not_keep_the_loop_busy(broker: ScriptedBroker) -> None:
    """result() polled in every iteration of the loop whether the record was accepted."""
    asked = threading.Event()

    def silent(*_: Any) -> None:
        asked.set()

    broker.handlers[MetadataRequest] = silent
    producer = Producer(bootstrap_servers=broker.bootstrap, **QUICK)
    delivery = producer.send(TOPIC, b"x")
    assert asked.wait(PATIENCE_S)
    turns = 0
    select = producer._thread.loop._selector.select  # type: ignore[attr-defined]  # asyncio's own

    def counted(timeout: float | None = None) -> Any:
        nonlocal turns
        turns += 1
        return select(timeout)

    producer._thread.loop._selector.select = counted  # type: ignore[attr-defined]
    with pytest.raises(client_errors.KafkaTimeoutError, match="not written"):
        delivery.result(0.3)
    with pytest.raises(client_errors.KafkaTimeoutError, match="undelivered"):
        producer.flush(timeout_ms=300)
    assert turns < 100
    producer.close(timeout_ms=1)


def test_two_threads_may_wait_for_one_record(broker: ScriptedBroker) -> None:
    usual = broker.handlers[MetadataRequest]
    asked = threading.Event()

    def silent(*_: Any) -> None:
        asked.set()

    broker.handlers[MetadataRequest] = silent
    with Producer(bootstrap_servers=broker.bootstrap, request_timeout_ms=100, **QUICK) as producer:
        delivery = producer.send(TOPIC, b"x")
        assert asked.wait(PATIENCE_S)
        with pytest.raises(client_errors.KafkaTimeoutError):
            delivery.result(0.001)
        results: list[int] = []
        threads = [
            threading.Thread(target=lambda: results.append(delivery.result(PATIENCE_S).offset))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        broker.handlers[MetadataRequest] = usual
        for thread in threads:
            thread.join(PATIENCE_S)
        assert results == [0, 0]


def test_a_full_inbox_blocks_send(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "MAX_INBOX", 10)
    options = {**QUICK, "max_block_ms": 200}
    with Producer(bootstrap_servers=broker.bootstrap, **options) as producer:
        deliveries = []
        for _ in range(100):
            deliveries.append(producer.send("elsewhere", b"x"))
            assert producer._inbox.size <= 11
        for delivery in deliveries:
            with pytest.raises(client_errors.KafkaTimeoutError):
                delivery.result(PATIENCE_S)


def test_a_delivery_has_its_error_without_being_awaited(broker: ScriptedBroker) -> None:
    from barnabas.base.errors import ErrorCode
    from barnabas.protocol.messages.produce import ProduceRequest

    broker.handlers[ProduceRequest] = lambda *_: broker.produced(ErrorCode.INVALID_RECORD)
    with Producer(bootstrap_servers=broker.bootstrap, **QUICK) as producer:
        delivery = producer.send(TOPIC, b"x")
        assert delivery.error is None or delivery.done
        producer.flush()
        assert isinstance(delivery.error, client_errors.InvalidRecordError)


@pytest.mark.parametrize("operation", ["flush", "close"])
def test_the_time_that_records_took_to_reach_the_loop_counts(
    broker: ScriptedBroker, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven of sixty seconds pass before; the asynchronous producer gets what is left."""
    producer = Producer(bootstrap_servers=broker.bootstrap, **QUICK)
    ahead_s = 0.0
    really = loop_thread._Loop.time
    monkeypatch.setattr(loop_thread._Loop, "time", lambda loop: really(loop) + ahead_s)

    async def at_most(count: int) -> None:
        nonlocal ahead_s
        ahead_s = 7.0

    given: list[int | None] = []
    inner_name = {"close": "_shut_down"}.get(operation, operation)
    inner = getattr(producer._client, inner_name)

    async def noted(timeout_ms: int | None = None) -> None:
        given.append(timeout_ms)
        await inner(timeout_ms=timeout_ms)

    with monkeypatch.context() as patch:
        patch.setattr(producer._inbox, "at_most", at_most)
        patch.setattr(producer._client, inner_name, noted)
        getattr(producer, operation)(timeout_ms=60_000)
    producer.close()
    (left_ms,) = given
    assert left_ms is not None
    assert 0 < left_ms <= 53_000
