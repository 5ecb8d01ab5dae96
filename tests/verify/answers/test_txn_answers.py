"""Transactions: every answer of a broker of ours beside Apache Kafka's to the same requests.

As test_broker_answers.py does it.  Between two parts of the table a producer uses up the epochs of its id.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.base.hashing import partition_for_group
from barnabas.base.topic_names import TRANSACTION_STATE
from barnabas.protocol.apis import api
from barnabas.protocol.frame import read_response, write_request
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.frames import FrameReader
from tests.verify.answers.asks.txn import (
    ASKS,
    LAST_EPOCH,
    OUR_TIME,
    PRODUCERS,
    TIMEOUT_MS,
    TITLES,
    WORN_OUT,
)
from tests.verify.answers.both_answers import Answers, answers_of_both
from tests.verify.answers.broker_answers import differences, prepared
from tests.verify.answers.broker_ask import Plain, RawClient
from tests.verify.folders.txn_state import Row, row_of

# The records of the tables are older than a week.
SETTINGS = {"log.retention.ms": "-1"}
APACHE_SETTLES_S = 0.4
OURS_SETTLES_S = 0.02
READY_PATIENCE_S = 60
READY_PAUSE_S = 0.2
INIT_VERSION = 5
PIPELINED = 500
# The title of what is in the coordinators' log.
LOG = "(log)"
COORDINATORS = 50
# Title and version -> why ours is another.
DELIBERATE: dict[str, str] = {}


@pytest.fixture(scope="module")
def answers(oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Answers:
    home = tmp_path_factory.mktemp("transactions") / "node"
    return answers_of_both(
        oracle,
        home,
        SETTINGS,
        asked,
        apache_settles_s=APACHE_SETTLES_S,
        ours_settles_s=OURS_SETTLES_S,
    )


def asked(port: int, settles_s: float) -> dict[str, Plain]:
    raw_client = RawClient(port, settles_s)
    wait_for_coordinators(raw_client)
    raw_client.run(ASKS)
    wear_out(port)
    answers = raw_client.run(WORN_OUT)
    found = {title: shown(prepared("", answer, raw_client.topic_names)) for title, answer in answers.items()}
    found[LOG] = {name: log_of(raw_client, name) for name in PRODUCERS}
    raw_client.close()
    return found


def log_of(raw_client: RawClient, transactional_id: str) -> list[Row]:
    """The records of an id in the log of its coordinator."""
    rows: list[Row] = []
    offset, end = 0, 1
    while offset < end:
        part = {
            "partition": partition_for_group(transactional_id, COORDINATORS),
            "fetch_offset": offset,
            "partition_max_bytes": 1 << 20,
        }
        topics = [{"topic": TRANSACTION_STATE, "partitions": [part]}]
        answer = raw_client.one("Fetch", 12, max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=topics)
        partition = answer["responses"][0]["partitions"][0]
        end = partition["high_watermark"]
        for batch in partition["records"]:
            if "records" not in batch:
                break  # it was cut off
            rows += [row_of(record["key"], record["value"]) for record in batch["records"]]
            offset = batch["base_offset"] + batch["last_offset_delta"] + 1
    return [row for row in rows if row[0] == transactional_id]


def wait_for_coordinators(raw_client: RawClient) -> None:
    """The first question makes the coordinators' topics; until all are led nobody can be asked."""
    limit = time.monotonic() + READY_PATIENCE_S
    while (
        raw_client.one("FindCoordinator", 3, key="readers", key_type=0)["error_code"]
        or raw_client.one("FindCoordinator", 3, key="old", key_type=1)["error_code"]
        or raw_client.one("ListTransactions", 0)["error_code"]
        or any(is_unled(raw_client, name) for name in PRODUCERS)
    ):
        assert time.monotonic() < limit, "no coordinator of transactions"
        time.sleep(READY_PAUSE_S)


def is_unled(raw_client: RawClient, transactional_id: str) -> bool:
    answer = raw_client.one("DescribeTransactions", 0, transactional_ids=[transactional_id])
    return bool(answer["transaction_states"][0]["error_code"] in (14, 15, 16))


def wear_out(port: int) -> None:
    """Let `worn` begin again and again, until it has the last epoch that a client may have."""
    request = InitProducerIdRequest(transactional_id="worn", transaction_timeout_ms=TIMEOUT_MS)
    frame = write_request(request, INIT_VERSION, 1, "judge")
    reader = FrameReader()
    epoch = 0
    with socket.create_connection(("localhost", port), timeout=READY_PATIENCE_S) as connection:
        while epoch < LAST_EPOCH:
            wanted = min(PIPELINED, LAST_EPOCH - epoch)
            connection.sendall(frame * wanted)
            while wanted:
                for answer in reader.feed(connection.recv(1 << 20)):
                    _, response = read_response(
                        answer, api(InitProducerIdRequest.schema.key or 0), INIT_VERSION
                    )
                    assert isinstance(response, InitProducerIdResponse)
                    assert response.error_code == 0
                    epoch = response.producer_epoch
                    wanted -= 1


def shown(answer: Plain) -> Plain:
    """Without the clock, and in an order of its own where that of Java's or Scala's sets shows."""
    if isinstance(answer, dict):
        return {name: shown(value) for name, value in answer.items()}
    if isinstance(answer, list):
        return sorted((shown(one) for one in answer), key=_by_name)
    if isinstance(answer, int) and answer >= OUR_TIME:
        return "(time)"
    return answer


def _by_name(row: Plain) -> tuple[str, ...]:
    if not isinstance(row, dict):
        return (str(row),)
    names = ("name", "topic", "transactional_id", "producer_id", "partition_index", "base_offset", "offset")
    return tuple(str(row.get(name, "")).rjust(12, "0") for name in names)


def test_the_table_is_whole() -> None:
    assert len(TITLES) == len(set(TITLES)) >= 150
    assert set(DELIBERATE) <= set(TITLES)


def test_producers_have_the_ids_of_the_table(answers: Answers) -> None:
    for found in (answers.theirs, answers.ours):
        rows = found["describe at rest v0"]["transaction_states"]
        assert {
            row["transactional_id"]: row["producer_id"] for row in rows if not row["error_code"]
        } == PRODUCERS


@pytest.mark.trap
@pytest.mark.parametrize("title", [title for title in TITLES if title not in DELIBERATE])
def test_answers_are_equal(answers: Answers, title: str) -> None:
    """Traps 3, 4, 9, 20 and 22: idempotence, old versions, aborted lists, INVALID_TRANSACTION_TIMEOUT, epochs."""
    found = differences(answers.theirs[title], answers.ours[title])
    assert not found, "Apache Kafka's -> ours\n" + "\n".join(found)


def test_what_differs_on_purpose_still_does(answers: Answers) -> None:
    for title, why in DELIBERATE.items():
        assert differences(answers.theirs[title], answers.ours[title]), f"no longer needed: {why}"


def test_the_log_of_the_coordinators_is_equal_byte_for_byte(answers: Answers) -> None:
    """Up to times, and the order of partitions, which is that of a set in Scala."""
    different = []
    for name, theirs in answers.theirs[LOG].items():
        ours = answers.ours[LOG][name]
        assert [row[2]["transaction_status"] for row in theirs] == [
            row[2]["transaction_status"] for row in ours
        ], name
        different += [(a[2], b[2]) for a, b in zip(theirs, ours, strict=True) if a[3] != b[3]]
    # Both ids around a used up one are written where Apache Kafka forgets them; see coordinator/txn/records.py.
    for theirs_fields, our_fields in different:
        added = {name for name, value in our_fields.items() if value != theirs_fields[name]}
        assert added <= {"next_producer_id", "previous_producer_id"}, (theirs_fields, our_fields)
    assert len(different) == 2


def test_refused_requests_are_among_them(answers: Answers) -> None:
    """The table would prove little if all of it were refused, or nothing."""
    codes = {title: set(error_codes(answer)) - {0} for title, answer in answers.theirs.items()}
    assert sum(bool(found) for found in codes.values()) >= 40
    assert len(set().union(*codes.values())) >= 12


def error_codes(answer: Plain) -> Iterator[int]:
    if isinstance(answer, dict):
        for name, value in answer.items():
            if name.endswith("error_code"):
                yield value
            yield from error_codes(value)
    if isinstance(answer, list):
        for one in answer:
            yield from error_codes(one)


def test_no_request_makes_our_broker_fail_inside(answers: Answers) -> None:
    assert answers.faults == []
