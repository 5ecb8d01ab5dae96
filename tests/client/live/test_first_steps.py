"""What a newcomer writes first, and what becomes of their mistakes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client import Consumer, NewTopic, Producer, TopicPartition, sync
from barnabas.client import errors as client_errors
from barnabas.config.errors import ConfigError
from tests.client.live.work import Run

PATIENCE_S = 60
EARLIEST: dict[str, Any] = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}


async def _outcome(producer: Producer, *record: Any, **options: Any) -> Any:
    try:
        return await producer.send_and_wait(*record, **options)
    except Exception as error:
        return error


def test_bad_records_beside_good_ones(bootstrap: str, topic: str, run: Run) -> None:
    """The fault of a record is its own: the others are written."""

    async def work() -> None:
        async with Producer(bootstrap_servers=bootstrap, max_block_ms=1_000) as producer:
            await producer.send_and_wait(topic, b"first")
            first, nameless, stray, text, last = await asyncio.gather(
                _outcome(producer, topic, b"a"),
                _outcome(producer, None, b"x"),
                _outcome(producer, topic, b"x", partition=77),
                _outcome(producer, topic, "text"),
                _outcome(producer, topic, b"b"),
            )
        assert [first.offset, last.offset] == [1, 2]
        assert isinstance(nameless, TypeError)
        assert "a topic's name is a str, not NoneType" in str(nameless)
        assert isinstance(stray, client_errors.KafkaTimeoutError)
        assert "has no partition 77" in str(stray)
        assert isinstance(text, TypeError)
        assert "set value_serializer" in str(text)

    run(work())


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (["t"], TypeError, "write TopicPartition('t', 0), or subscribe(['t'])"),
        ("t", TypeError, "write [TopicPartition('t', 0)]"),
        (["ab"], TypeError, "'ab' is not a partition"),
        (TopicPartition("t", 0), TypeError, "is one partition"),
        ([("t", "0")], TypeError, "write TopicPartition(topic, number)"),
        ([("t", -1)], ValueError, "numbers start at 0"),
    ],
)
def test_assign_takes_partitions(given: Any, error: type[Exception], words: str, run: Run) -> None:
    """["ab"] used to be partition "b" of topic "a"."""

    async def work() -> None:
        async with Consumer(bootstrap_servers="127.0.0.1:9") as consumer:
            with pytest.raises(error) as raised:
                consumer.assign(given)
            assert words in str(raised.value)
            assert not consumer.assignment()
            consumer.assign([("t", 0)])  # type: ignore[list-item]  # a pair will do
            assert consumer.assignment() == {TopicPartition("t", 0)}

    run(work())


def test_topics_in_the_constructor_are_subscribed_to(
    bootstrap: str, topic: str, group: str, run: Run
) -> None:
    async def work() -> None:
        async with Producer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait(topic, b"a")
        async with Consumer(topic, bootstrap_servers=bootstrap, group_id=group, **EARLIEST) as consumer:
            assert consumer.subscription() == {topic}
            async for record in consumer:
                assert record.value == b"a"
                break
            await consumer.commit()
        with sync.Consumer({"bootstrap.servers": bootstrap, "group.id": group}, topic) as again:
            partition = TopicPartition(topic, 0)
            assert again.committed([partition])[partition] is not None
            assert again.subscription() == {topic}

    run(work())


def test_without_a_group_all_partitions_are_read(bootstrap: str, fresh_name: Callable[[], str]) -> None:
    """Also a topic and a partition that are created later."""
    first, second = fresh_name(), fresh_name()
    with (
        sync.Admin(bootstrap_servers=bootstrap) as admin,
        sync.Producer(bootstrap_servers=bootstrap) as producer,
        sync.Consumer(
            first, second, bootstrap_servers=bootstrap, metadata_max_age_ms=200, **EARLIEST
        ) as consumer,
    ):
        expected = set()
        admin.create_topics([NewTopic(first, 2, 1)]).raise_first()
        for topic, partition in ((first, 0), (first, 1), (second, 0), (first, 2)):
            if partition == 2:
                admin.create_partitions({first: 3}).raise_first()
            producer.send(topic, b"x", partition=partition).result(PATIENCE_S)
            expected.add(TopicPartition(topic, partition))
            found: set[TopicPartition] = set()
            while TopicPartition(topic, partition) not in found:
                found |= {TopicPartition(record.topic, record.partition) for record in consumer.poll()}
        assert consumer.assignment() == expected
        with pytest.raises(client_errors.InvalidGroupIdError, match=r"group\.id"):
            consumer.subscribe([first])


@pytest.mark.parametrize("make", [sync.Producer, sync.Consumer, sync.Admin])
def test_misspelt_options_are_refused(make: Any) -> None:
    """In the dict and as a keyword; the nearest name is suggested."""
    for arguments, options in (
        (({"bootstrap.servers": "a:1", "client.idd": "x"},), {}),
        ((), {"bootstrap_servers": "a:1", "client_idd": "x"}),
        ((), {"bootstrap_servers": "a:1", "client.id": "x"}),
    ):
        with pytest.raises(ConfigError, match=r"did you mean client.id\?"):
            make(*arguments, **options)
    with pytest.raises(
        ConfigError, match=r"linger.mss is not an option of a producer; did you mean linger.ms"
    ):
        sync.Producer({"linger.mss": 5})


def test_every_error_has_advice(bootstrap: str, topic: str) -> None:
    """Also one of the user's own functions, which `on_delivery` gets as an error of the client."""
    reported: list[Any] = []

    def fails(value: Any) -> bytes:
        raise ZeroDivisionError("by zero")

    with sync.Producer(bootstrap_servers=bootstrap, value_serializer=fails) as producer:
        sent = producer.send(topic, b"x", on_delivery=lambda _, error: reported.append(error))
        with pytest.raises(ZeroDivisionError):
            sent.result(PATIENCE_S)
    (error,) = reported
    assert isinstance(error, client_errors.KafkaError)
    assert "ZeroDivisionError: by zero" in error.message
    assert error.advice.startswith("Correct the record, or the serializer")
    assert client_errors.KafkaError(client_errors.ErrorCode.NONE).advice == ""
