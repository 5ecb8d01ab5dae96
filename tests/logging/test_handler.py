"""Python's logging into a topic: M-I3."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.sync import Consumer
from barnabas.logging import Handler, JsonFormatter
from tools.raw_broker import BrokerProcess

PATIENCE_S = 120


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(tmp_path_factory.mktemp("logging")) as broker:
        yield f"{broker.address[0]}:{broker.address[1]}"


def read(bootstrap: str, topic: str, count: int) -> list[tuple[bytes | None, dict[str, object]]]:
    with Consumer(
        bootstrap_servers=bootstrap, group_id=f"read-{topic}", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe([topic])
        results: list[tuple[Any, dict[str, object]]] = []
        for _ in range(PATIENCE_S * 10):
            records: list[Any] = list(consumer.poll(timeout_ms=100))
            results += [(record.key, json.loads(record.value)) for record in records]
            if len(results) >= count:
                return results
    pytest.fail(f"{len(results)} of {count} came")


def test_lines_are_records_with_all_that_is_known_of_them(bootstrap: str) -> None:
    handler = Handler("logged", bootstrap_servers=bootstrap, service="shop")
    logger = logging.getLogger("shop.orders")
    logger.propagate = False
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.info("order %d", 7, extra={"trace": "t1"})
    try:
        raise KeyError("what")
    except KeyError:
        logger.exception("failed")
    logger.debug("not this")
    handler.close()
    logger.removeHandler(handler)
    (key, first), (_, second) = read(bootstrap, "logged", 2)
    assert key == b"shop"
    time = first.pop("time")
    assert isinstance(time, str)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time)
    assert first == {
        "level": "INFO", "logger": "shop.orders", "service": "shop", "message": "order 7", "trace": "t1",
    }  # fmt: skip
    assert second["level"] == "ERROR"
    assert "KeyError: 'what'" in str(second["exception"])
    assert handler.lost == 0


def test_the_clients_own_lines_are_not_sent() -> None:
    handler = Handler("never", bootstrap_servers="localhost:1")
    for name in ("barnabas.client.cluster", "asyncio"):
        # Its lock may be held by a thread that waits for the client's thread.
        assert handler.lock is not None
        with handler.lock:
            record = logging.makeLogRecord({"name": name, "msg": "x"})
            client = threading.Thread(target=handler.handle, args=[record], daemon=True)
            client.start()
            client.join(PATIENCE_S)
            assert not client.is_alive()
    assert handler._producer is None
    handler.close()


def test_a_line_that_cannot_be_formatted_does_not_end_the_program(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[logging.LogRecord] = []
    handler = Handler("bad", bootstrap_servers=bootstrap)
    monkeypatch.setattr(handler, "handleError", failures.append)
    handler.emit(logging.makeLogRecord({"name": "a", "msg": "%d", "args": ("x",)}))
    assert len(failures) == 1
    handler.close()


def test_whatever_is_given_as_extra_becomes_text() -> None:
    record = logging.makeLogRecord({"name": "a", "msg": "b", "path": Path("c"), "level": "mine"})
    entry = json.loads(JsonFormatter().format(record))
    assert entry["path"] == "c"
    assert entry["level"] != "mine"


def shut_down(handler: Handler) -> None:
    """As at the end of a program; must not take forever."""
    ending = threading.Thread(target=logging.shutdown, args=[[weakref.ref(handler)]], daemon=True)
    ending.start()
    ending.join(PATIENCE_S)
    assert not ending.is_alive()


def log(handler: Handler, line: str) -> None:
    handler.handle(logging.makeLogRecord({"name": "a", "msg": line}))


@pytest.mark.parametrize(
    ("config", "options", "block_ms"),
    [
        ({}, {}, 300_000),
        ({}, {"delivery_timeout_ms": 200_000}, 200_000),
        ({"delivery.timeout.ms": 200_000}, {}, 200_000),
        ({"max.block.ms": 5}, {}, 5),
        ({}, {"max_block_ms": 5}, 5),
    ],
)
def test_a_broker_that_was_never_there_is_waited_for_as_long_as_one_that_left(
    config: dict[str, object], options: dict[str, Any], block_ms: int
) -> None:
    handler = Handler("t", config, bootstrap_servers="127.0.0.1:1", **options)
    settings = handler._open()._client.settings
    assert settings["max.block.ms"] == block_ms
    assert settings["delivery.timeout.ms"] == (block_ms if block_ms > 5 else 300_000)
    handler.close()


def test_lines_for_a_broker_that_does_not_come_are_counted_as_lost() -> None:
    handler = Handler(
        "t", bootstrap_servers="127.0.0.1:1", delivery_timeout_ms=300, request_timeout_ms=200, linger_ms=0
    )
    log(handler, "one")
    log(handler, "two")
    handler.flush()
    assert handler.lost == 2
    handler.close()


def test_a_line_that_cannot_be_formatted_is_counted_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    handler = Handler("t", bootstrap_servers="127.0.0.1:1")
    record = logging.makeLogRecord({"name": "shop", "msg": "x", "tally": {("a", 1): 2}})
    assert handler.handle(record)
    assert handler.lost == 1
    handler.close()


def test_the_end_of_a_program_does_not_wait_for_a_broker_that_was_never_there() -> None:
    handler = Handler("t", bootstrap_servers="127.0.0.1:1", close_timeout_ms=200)
    for _ in range(10):
        log(handler, "x")
    shut_down(handler)
    assert handler.lost == 10


def test_the_end_of_a_program_does_not_wait_for_a_broker_that_left(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        place = f"{broker.address[0]}:{broker.address[1]}"
        handler = Handler("t", bootstrap_servers=place, close_timeout_ms=PATIENCE_S * 1000)
        log(handler, "written")
        handler.flush()
        broker.kill()
    handler._close_timeout_ms = 200
    for _ in range(10):
        log(handler, "x")
    shut_down(handler)
    assert handler.lost == 10


SCRIPT = """
import logging, os, sys
from barnabas.logging import Handler

logging.basicConfig(level=logging.INFO, handlers=[Handler(sys.argv[2], bootstrap_servers=sys.argv[1])])
logging.info("parent")
child = os.fork()
if child == 0:
    logging.info("child")
    logging.shutdown()
    os._exit(0)
os.waitpid(child, 0)
"""


SHORT = """
import logging, sys
from barnabas.logging import Handler

logging.basicConfig(level=logging.INFO, handlers=[Handler("short", bootstrap_servers=sys.argv[1])])
logging.info("all there is")
"""


def test_a_program_that_ends_at_once_still_finds_its_broker_by_name(bootstrap: str) -> None:
    """At exit Python starts no threads any more, not even for a host lookup."""
    place = bootstrap.replace("127.0.0.1", "localhost")
    subprocess.run([sys.executable, "-c", SHORT, place], check=True, timeout=PATIENCE_S)
    ((_, entry),) = read(bootstrap, "short", 1)
    assert entry["message"] == "all there is"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_forked_worker_logs_too_and_the_end_of_the_program_loses_nothing(bootstrap: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, bootstrap, "forked"]
    subprocess.run(command, check=True, timeout=PATIENCE_S)
    found = read(bootstrap, "forked", 2)
    assert sorted(str(entry["message"]) for _, entry in found) == ["child", "parent"]
