"""The handler beside a producer that only notes what it is given."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client.errors.local import KafkaTimeoutError
from barnabas.logging import Handler, JsonFormatter
from barnabas.logging.handler import CLOSE_TIMEOUT_MS, DELIVERY_TIMEOUT_MS

Call = tuple[str, dict[str, Any]]


class Noting:
    """A producer without a broker."""

    made: list[Noting]

    def __init__(self, config: Mapping[str, object], **options: object) -> None:
        self.config = dict(config)
        self.options = options
        self.calls: list[Call] = []
        self.is_slow = False
        Noting.made.append(self)

    def send(self, topic: str, value: bytes, key: bytes | None, **more: Any) -> None:
        self.calls.append(("send", {"topic": topic, "value": value, "key": key, **more}))

    def flush(self, *, timeout_ms: int) -> None:
        self.calls.append(("flush", {"timeout_ms": timeout_ms}))
        if self.is_slow:
            raise KafkaTimeoutError("1 record is still undelivered")

    def close(self, *, timeout_ms: int) -> None:
        self.calls.append(("close", {"timeout_ms": timeout_ms}))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


@pytest.fixture(autouse=True)
def producers(monkeypatch: pytest.MonkeyPatch) -> list[Noting]:
    Noting.made = []
    monkeypatch.setattr("barnabas.client.sync.Producer", Noting)
    return Noting.made


def line(message: str = "hello", name: str = "shop", level: int = logging.INFO) -> logging.LogRecord:
    record = logging.LogRecord(name, level, "shop.py", 7, message, (), None)
    record.created = 1_700_000_000.25
    return record


def test_a_line_is_sent_with_its_time_key_and_topic(producers: list[Noting]) -> None:
    handler = Handler("lines", {"acks": "1"}, service="shop", linger_ms=5)
    assert producers == [], "the producer starts with the first line"
    assert handler.level == logging.NOTSET
    handler.handle(line("ünter"))
    (producer,) = producers
    assert producer.options == {"linger_ms": 5}
    assert producer.config["acks"] == "1"
    ((name, given),) = producer.calls
    assert (name, given["topic"], given["key"], given["timestamp_ms"]) == (
        "send",
        "lines",
        b"shop",
        1_700_000_000_250,
    )
    assert json.loads(given["value"]) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "INFO",
        "logger": "shop",
        "service": "shop",
        "message": "ünter",
    }
    assert "ünter".encode() in given["value"]


def test_without_a_service_there_is_no_key(producers: list[Noting]) -> None:
    Handler("lines").handle(line())
    assert producers[0].calls[0][1]["key"] is None
    assert "service" not in json.loads(producers[0].calls[0][1]["value"])


def test_fields_of_extra_do_not_replace_those_of_the_line() -> None:
    record = line("the message")
    record.__dict__.update({"trace": "t1", "time": "never", "taskName": "task"})
    shown = json.loads(JsonFormatter().format(record))
    assert shown == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "INFO",
        "logger": "shop",
        "message": "the message",
        "trace": "t1",
    }


@pytest.mark.parametrize("name", ["barnabas", "barnabas.client", "asyncio", "asyncio.events"])
def test_lines_of_the_client_are_refused(name: str, producers: list[Noting]) -> None:
    handler = Handler("lines")
    handler.handle(line(name=name))
    assert producers == []
    handler.handle(line(name=f"my_{name}"))
    assert len(producers[0].calls) == 1


def test_filters_of_the_handler_are_used(producers: list[Noting]) -> None:
    handler = Handler("lines")
    handler.addFilter(lambda record: record.levelno >= logging.ERROR)
    handler.handle(line())
    handler.handle(line(level=logging.ERROR))
    assert producers[0].names == ["send"]


def delivered(producer: Noting) -> Callable[[object, KafkaError | None], None]:
    callback: Callable[[object, KafkaError | None], None] = producer.calls[-1][1]["on_delivery"]
    return callback


def test_undelivered_lines_are_counted(producers: list[Noting]) -> None:
    handler = Handler("lines")
    handler.handle(line())
    delivered(producers[0])(object(), None)
    assert handler.lost == 0
    delivered(producers[0])(None, KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    delivered(producers[0])(None, KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    assert handler.lost == 2


def test_a_producer_that_refuses_a_line_does_not_end_the_program(
    producers: list[Noting], monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[logging.LogRecord] = []
    handler = Handler("lines")
    monkeypatch.setattr(handler, "handleError", reported.append)

    def refuse(*_: object, **__: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr(Noting, "send", refuse)
    refused = line()
    handler.handle(refused)
    assert (handler.lost, reported) == (1, [refused])


def test_flush_and_close_wait_for_one_time_out_together(producers: list[Noting]) -> None:
    handler = Handler("lines", close_timeout_ms=500)
    handler.flush()
    assert producers == [], "nothing to flush"
    handler.handle(line())
    producers[0].is_slow = True
    handler.flush()
    handler.close()
    assert producers[0].calls[1:] == [("flush", {"timeout_ms": 500}), ("close", {"timeout_ms": 0})]


def test_a_line_after_a_slow_flush_is_waited_for_again(producers: list[Noting]) -> None:
    handler = Handler("lines", close_timeout_ms=500)
    handler.handle(line())
    producers[0].is_slow = True
    handler.flush()
    handler.handle(line())
    handler.close()
    assert producers[0].calls[-1] == ("close", {"timeout_ms": 500})


def test_a_closed_handler_ignores_everything(producers: list[Noting]) -> None:
    handler = Handler("lines")
    handler.handle(line())
    handler.flush()
    handler.close()
    handler.handle(line())
    handler.flush()
    handler.close()
    assert producers[0].names == ["send", "flush", "close"]
    assert producers[0].calls[-1] == ("close", {"timeout_ms": CLOSE_TIMEOUT_MS})
    assert len(producers) == 1
    unused = Handler("lines")
    unused.close()
    unused.handle(line())
    assert len(producers) == 1


def test_logging_forgets_a_closed_handler() -> None:
    handler = Handler("lines")
    handler.set_name("to be forgotten")
    assert "to be forgotten" in logging._handlers  # type: ignore[attr-defined]
    handler.close()
    assert "to be forgotten" not in logging._handlers  # type: ignore[attr-defined]


def test_another_process_has_its_own_producer(
    producers: list[Noting], monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = Handler("lines")
    handler.handle(line())
    monkeypatch.setattr(os, "getpid", lambda: -5)
    handler.flush()
    handler.handle(line())
    handler.flush()
    handler.close()
    assert [producer.names for producer in producers] == [["send"], ["send", "flush", "close"]]


def test_a_child_that_logs_nothing_leaves_the_producer_of_its_parent_alone(
    producers: list[Noting], monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = Handler("lines")
    handler.handle(line())
    monkeypatch.setattr(os, "getpid", lambda: -5)
    handler.close()
    assert producers[0].names == ["send"]


@pytest.mark.parametrize(
    ("config", "options", "expected"),
    [
        ({}, {}, (DELIVERY_TIMEOUT_MS, DELIVERY_TIMEOUT_MS)),
        ({"delivery.timeout.ms": 7}, {}, (7, 7)),
        ({"max.block.ms": 7}, {}, (DELIVERY_TIMEOUT_MS, 7)),
        ({}, {"delivery_timeout_ms": 7}, (None, 7)),
        ({}, {"max_block_ms": 7}, (DELIVERY_TIMEOUT_MS, None)),
    ],
)
def test_an_absent_broker_is_waited_for_as_long_as_one_that_left(
    config: dict[str, object],
    options: dict[str, Any],
    expected: tuple[object, object],
    producers: list[Noting],
) -> None:
    """An option that is given is not among the properties, too."""
    Handler("lines", config, **options).handle(line())
    given = producers[0].config
    assert (given.get("delivery.timeout.ms"), given.get("max.block.ms")) == expected
    assert producers[0].options == options


def test_the_time_outs() -> None:
    assert (DELIVERY_TIMEOUT_MS, CLOSE_TIMEOUT_MS) == (300_000, 30_000)
