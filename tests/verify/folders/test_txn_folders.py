"""Transactions in a data folder that goes from Apache Kafka to barnabas and back: open ones are ended by the other.

At each transaction.version: both write the state of transactions as the cluster's features say.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.verify.answers.asks.txn import in_txn
from tests.verify.answers.broker_ask import Plain, RawClient, ask
from tests.verify.folders.txn_state import Row, state_records
from tests.verify.nodes.broker_node import VERSION, apache_then_ours

SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "log.retention.ms": "-1",
}
TIMEOUT_MS = 900_000
READY_PATIENCE_S = 60
READY_PAUSE_S = 0.1
READ_COMMITTED = 1
CONTROL = 0x20
# Names with `open` are left open by one broker and ended by the other.
NAMES = ("open-commit", "open-abort", "done")
TROUBLE = re.compile(r"__transaction_state.*(rebuil|truncat|corrupt|sanity)|(ERROR|FATAL)", re.I)
# It reloads them at every start.
NO_TROUBLE = "Reloading from producer snapshot and rebuilding producer state"


class Program:
    """Producers that live longer than brokers."""

    def __init__(self, level: int) -> None:
        self.adds_itself = level < 2
        self.producers: dict[str, tuple[int, int]] = {}
        self.sequences: dict[str, int] = {}
        self.committed: list[bytes] = []
        self.written: dict[str, list[bytes]] = {}

    def begin(self, raw_client: RawClient, name: str, value: str) -> None:
        """A transaction with one record, which stays open."""
        if name not in self.producers:
            answer = until_ready(
                raw_client, "InitProducerId", 5, transactional_id=name, transaction_timeout_ms=TIMEOUT_MS
            )
            self.producers[name] = answer["producer_id"], answer["producer_epoch"]
            self.sequences[name] = 0
        pid, epoch = self.producers[name]
        if self.adds_itself:
            self._add(raw_client, name)
        batch = in_txn(pid, epoch, self.sequences[name], value)
        part = {"index": 0, "records": batch}
        answer = raw_client.one(
            "Produce",
            9 if self.adds_itself else 12,
            transactional_id=name,
            acks=-1,
            timeout_ms=9000,
            topic_data=[{"name": "ledger", "partition_data": [part]}],
        )
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0, answer
        self.sequences[name] += 1
        self.written.setdefault(name, []).append(value.encode())

    def _add(self, raw_client: RawClient, name: str) -> None:
        pid, epoch = self.producers[name]
        for _ in range(100):
            answer = raw_client.one(
                "AddPartitionsToTxn",
                3,
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=pid,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=[{"name": "ledger", "partitions": [0]}],
            )
            topics = answer["results_by_topic_v3_and_below"]
            code = topics[0]["results_by_partition"][0]["partition_error_code"]
            if not code:
                return
            time.sleep(READY_PAUSE_S)
        raise AssertionError(f"{name} cannot begin: {code}")

    def end(self, raw_client: RawClient, name: str, *, commit: bool) -> None:
        pid, epoch = self.producers[name]
        answer = raw_client.one(
            "EndTxn",
            4 if self.adds_itself else 5,
            transactional_id=name,
            producer_id=pid,
            producer_epoch=epoch,
            committed=commit,
        )
        assert answer["error_code"] == 0, answer
        if not self.adds_itself:
            self.producers[name] = answer["producer_id"], answer["producer_epoch"]
            self.sequences[name] = 0
        rows = self.written.pop(name)
        if commit:
            self.committed += rows


@dataclass
class Story:
    level: int
    found: list[tuple[str, dict[str, Plain]]] = field(default_factory=list)
    reads: list[tuple[str, list[bytes], list[bytes]]] = field(default_factory=list)
    dumps: dict[str, tuple[str, str]] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=dict)
    trouble: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def until_ready(raw_client: RawClient, name: str, version: int, **fields: Any) -> Plain:
    """A coordinator that is loading, or whose topic is being made, is asked again."""
    limit = time.monotonic() + READY_PATIENCE_S
    while True:
        answer = raw_client.one(name, version, **fields)
        if answer["error_code"] not in (14, 15, 16, 51):
            assert answer["error_code"] == 0, answer
            return answer
        assert time.monotonic() < limit, answer
        time.sleep(READY_PAUSE_S)


def states(raw_client: RawClient) -> dict[str, Plain]:
    limit = time.monotonic() + READY_PATIENCE_S
    while True:
        rows = raw_client.one("DescribeTransactions", 0, transactional_ids=list(NAMES))["transaction_states"]
        if not any(
            row["error_code"] in (14, 15, 16) or row["transaction_state"].startswith("Prep") for row in rows
        ):
            return {row["transactional_id"]: row for row in rows}
        assert time.monotonic() < limit, rows
        time.sleep(READY_PAUSE_S)


def read(raw_client: RawClient) -> list[bytes]:
    """What a read_committed consumer keeps, up to the last stable offset."""
    values: list[bytes] = []
    offset, end = 0, 1
    while offset < end:
        part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        answer = raw_client.one(
            "Fetch",
            12,
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=READ_COMMITTED,
            topics=[{"topic": "ledger", "partitions": [part]}],
        )
        partition = answer["responses"][0]["partitions"][0]
        end = partition["last_stable_offset"]
        values += kept(partition["records"], partition["aborted_transactions"] or [])
        last = partition["records"][-1]
        offset = last["base_offset"] + last["last_offset_delta"] + 1
    return values


def kept(batches: list[Plain], aborted_transactions: list[Plain]) -> list[bytes]:
    """As a consumer does it: from an aborted transaction's first offset to its marker."""
    values: list[bytes] = []
    aborted = sorted((one["first_offset"], one["producer_id"]) for one in aborted_transactions)
    skipped: set[int] = set()
    for batch in batches:
        while aborted and aborted[0][0] <= batch["base_offset"]:
            skipped.add(aborted.pop(0)[1])
        if batch["attributes"] & CONTROL:
            skipped.discard(batch["producer_id"])
        elif batch["producer_id"] not in skipped:
            values += [record["value"] for record in batch["records"]]
    return values


def life(port: int, who: str, program: Program, story: Story, number: int) -> None:
    """Ends what the other one has left open, and leaves something open for it."""
    raw_client = RawClient(port, 0)
    if number:
        story.found.append((who, states(raw_client)))
        program.end(raw_client, "open-commit", commit=True)
        program.end(raw_client, "open-abort", commit=False)
    program.begin(raw_client, "done", f"done by {who} in life {number}")
    program.end(raw_client, "done", commit=number % 2 == 0)
    states(raw_client)  # until all partitions know
    story.reads.append((who, read(raw_client), list(program.committed)))
    program.begin(raw_client, "open-commit", f"left open by {who} in life {number}")
    program.begin(raw_client, "open-abort", f"left to be aborted by {who} in life {number}")
    raw_client.close()


@pytest.fixture(scope="module", params=[0, 1, 2])
def story(
    request: pytest.FixtureRequest, oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    level: int = request.param
    home = tmp_path_factory.mktemp("txn-folders") / "node"
    story = Story(level)
    program = Program(level)
    with apache_then_ours(oracle, home, SETTINGS) as (apache, ours):
        port = ours.port
        raw_client = RawClient(port, 0.4)
        raw_client.run(
            [
                ask(
                    "the level",
                    "UpdateFeatures",
                    "1",
                    timeout_ms=9000,
                    feature_updates=[
                        {"feature": "transaction.version", "max_version_level": level, "upgrade_type": 2}
                    ],
                ),
                ask(
                    "the topic",
                    "CreateTopics",
                    "7",
                    timeout_ms=9000,
                    topics=[{"name": "ledger", "num_partitions": 1, "replication_factor": 1}],
                ),
            ]
        )
        until_ready(raw_client, "FindCoordinator", 3, key="done", key_type=1)
        raw_client.close()
        life(port, "Apache Kafka", program, story, 0)
        for number in range(1, 5):
            before, after = (apache, ours) if number % 2 else (ours, apache)
            before.stop()
            after.start()
            life(port, "barnabas" if number % 2 else "Apache Kafka", program, story, number)
        apache.stop()
        story.dumps = dumps(oracle, apache.data)
        story.rows = state_records(apache.data)
        lines = apache.server_log.read_text("utf-8").splitlines()
        story.trouble = [line for line in lines if TROUBLE.search(line) and NO_TROUBLE not in line]
        story.faults = ours.faults()
        yield story


def dumps(oracle: Callable[..., Any], data: Path) -> dict[str, tuple[str, str]]:
    """Apache Kafka's tool's and ours of each log of the state of transactions."""
    found: dict[str, tuple[str, str]] = {}
    for path in sorted(data.glob("__transaction_state-*/*.log")):
        arguments = ["--files", str(path), "--transaction-log-decoder", "--print-data-log"]
        theirs = oracle(VERSION, "tool", "dump-log", *arguments)
        assert theirs.returncode == 0, theirs.stderr
        command = [sys.executable, "-m", "barnabas", "dump-log", *arguments]
        ours = subprocess.run(command, capture_output=True, text=True, check=True)
        found[path.parent.name] = (theirs.stdout.strip(), ours.stdout.strip())
    return found


def test_each_finds_open_what_the_other_has_left_open(story: Story) -> None:
    assert [who for who, _ in story.found] == ["barnabas", "Apache Kafka", "barnabas", "Apache Kafka"]
    for who, found in story.found:
        for name in ("open-commit", "open-abort"):
            state = found[name]
            assert (state["error_code"], state["transaction_state"]) == (0, "Ongoing"), (who, state)
            assert state["topics"] == [{"topic": "ledger", "partitions": [0]}]
        assert found["done"]["transaction_state"].startswith("Complete")


def test_each_reads_what_was_committed_and_nothing_else(story: Story) -> None:
    for who, seen, committed in story.reads:
        assert seen == committed, who
    assert len(story.reads[-1][1]) >= 6


def test_records_are_written_as_the_features_say(story: Story) -> None:
    versions = {version for rows in story.rows.values() for _, version, _, _ in rows}
    assert versions == {0 if story.level == 0 else 1}
    clients = {fields["client_transaction_version"] for rows in story.rows.values() for *_, fields, _ in rows}
    assert clients == ({0, 2} if story.level == 2 else {0})


def test_both_tools_read_the_records_alike(story: Story) -> None:
    assert len(story.dumps) == 2
    for name, (theirs, ours) in story.dumps.items():
        assert theirs == ours, name
        assert "transaction" in theirs


def test_nobody_has_trouble_with_it(story: Story) -> None:
    assert story.trouble == []
    assert story.faults == []
