"""Our console and measuring tools against Apache Kafka: the sessions that its own tools were recorded in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.sync import Producer
from tests.cli.sessions.differences import Differences
from tests.cli.sessions.replay import replay, run_ours, session
from tests.cli.sessions.sessions import Places
from tests.verify.nodes.apache_broker import apache_broker

NAMES = ("console", "measuring")
FORMATTERS = {
    "OffsetsMessageFormatter": "__consumer_offsets",
    "GroupMetadataMessageFormatter": "__consumer_offsets",
    "TransactionLogMessageFormatter": "__transaction_state",
}
# Whoever reads joins a group of its own, which the one before cannot have seen.
OWN_GROUP = "console-consumer-"
PACKAGE = "org.apache.kafka.tools.consumer."


@pytest.mark.parametrize("name", NAMES)
def test_our_tools_answer_as_apache_kafkas_do(oracle: Callable[..., Any], tmp_path: Path, name: Any) -> None:
    recorded = session(name)
    files = tmp_path / "files"
    files.mkdir()
    with apache_broker(oracle, "4.1.0", tmp_path / "kafka", recorded.settings) as broker:
        replay(recorded, Places(broker.bootstrap, f"localhost:{broker.port + 101}", files), Differences())


def test_internal_records_read_alike_by_both(oracle: Callable[..., Any], tmp_path: Path) -> None:
    """The same logs, printed by our tool and by Apache Kafka's."""
    with apache_broker(oracle, "4.1.0", tmp_path / "kafka", {}) as broker:
        fill(broker.bootstrap)
        for formatter, topic in FORMATTERS.items():
            flags = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--from-beginning"]
            flags += ["--timeout-ms", "5000", "--formatter", PACKAGE + formatter]
            ours = documents(run_ours(["console-consumer", *flags])[1])
            theirs = documents(oracle("4.1.0", "tool", "console-consumer", *flags).stdout)
            assert ours, formatter
            assert ours == theirs


def fill(server: str) -> None:
    with Producer({"bootstrap.servers": server, "transactional.id": "writer"}) as producer:
        producer.init_transactions()
        for value in (b"one", b"two"):
            producer.begin_transaction()
            producer.send("orders", value)
            producer.commit_transaction()
    words = ["console-consumer", "--bootstrap-server", server, "--topic", "orders", "--group", "g1"]
    assert run_ours([*words, "--from-beginning", "--max-messages", "2"])[0] == 0


def documents(text: str) -> set[str]:
    """The JSON documents that stand one after the other, without what is around them."""
    found, decoder = set(), json.JSONDecoder()
    position = text.find('{"key"')
    while position >= 0:
        _, end = decoder.raw_decode(text, position)
        found.add(text[position:end])
        position = text.find('{"key"', end)
    return {one for one in found if OWN_GROUP not in one}
