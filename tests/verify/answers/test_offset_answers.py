"""Committed offsets: every answer of a broker of ours beside Apache Kafka's to the same requests.

As test_broker_answers.py does it; the brokers of this file also serve what is not stable yet (topics by id).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from tests.verify.answers.asks.offsets import ASKS, LONGEST_TEXT
from tests.verify.answers.both_answers import Answers, answers_of_both
from tests.verify.answers.broker_answers import differences, prepared
from tests.verify.answers.broker_ask import Plain, RawClient

CHECK_RETENTION_MS = 400
RETENTION_PATIENCE_S = 2.5
SETTINGS = {
    "offset.metadata.max.bytes": str(LONGEST_TEXT),
    "unstable.api.versions.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.retention.check.interval.ms": str(CHECK_RETENTION_MS),
}
APACHE_SETTLES_S = 0.5
OURS_SETTLES_S = 0.1
READY_PATIENCE_S = 60
READY_PAUSE_S = 0.2
GROUPS = ("loner", "club", "other", "named", "by-id", "modern", "modern-tx", "fleeting", "lasting", "")
TRANSACTIONAL_IDS = ("tx", "members")
MEMBER_ID = re.compile(r"^(judge|name)-[0-9a-f]{8}-[0-9a-f-]{27}$")
TITLES = [f"{one.title} v{version}" for one in ASKS for version in one.versions]
EXPIRING = [
    f"{what} of a {group} group" for group in ("fleeting", "lasting") for what in ("offsets", "state")
]


@pytest.fixture(scope="module")
def answers(oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Answers:
    home = tmp_path_factory.mktemp("offsets") / "node"
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
    answers = raw_client.run(ASKS)
    answers.update(after_retention(raw_client))
    raw_client.close()
    return {title: shown(prepared("", answer, raw_client.topic_names)) for title, answer in answers.items()}


def wait_for_coordinators(raw_client: RawClient) -> None:
    """The first question makes the coordinators' topics; until they are led nobody can be asked."""
    limit = time.monotonic() + READY_PATIENCE_S
    while not (is_ready_for_groups(raw_client) and is_ready_for_transactions(raw_client)):
        assert time.monotonic() < limit, "there are no coordinators"
        time.sleep(READY_PAUSE_S)


def is_ready_for_groups(raw_client: RawClient) -> bool:
    found = [raw_client.one("FindCoordinator", 3, key=one, key_type=0)["error_code"] for one in GROUPS]
    return not any(found) and not any(
        raw_client.one("OffsetFetch", 7, group_id=one, topics=None)["error_code"] for one in GROUPS
    )


def is_ready_for_transactions(raw_client: RawClient) -> bool:
    found = [
        raw_client.one("FindCoordinator", 3, key=one, key_type=1)["error_code"] for one in TRANSACTIONAL_IDS
    ]
    if any(found):
        return False
    described = raw_client.one("DescribeTransactions", 0, transactional_ids=list(TRANSACTIONAL_IDS))
    unknown = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    return all(one["error_code"] == unknown for one in described["transaction_states"])


def after_retention(raw_client: RawClient) -> dict[str, Plain]:
    """An offset that brings its own, short retention, and a group that has no other."""
    row = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
    topics = [{"name": "letters", "partitions": [row]}]
    found: dict[str, Plain] = {}
    for group, retention_ms in (("fleeting", 1), ("lasting", 3_600_000)):
        raw_client.one(
            "OffsetCommit", 3, group_id=group, member_id="", topics=topics, retention_time_ms=retention_ms
        )
    time.sleep(RETENTION_PATIENCE_S)
    for group in ("fleeting", "lasting"):
        found[f"offsets of a {group} group"] = raw_client.one("OffsetFetch", 7, group_id=group, topics=None)
        found[f"state of a {group} group"] = raw_client.one("DescribeGroups", 5, groups=[group])
    return found


def shown(answer: Plain) -> Plain:
    """Without what is drawn at random, and in an order of its own where Java's is that of a hash map."""
    if isinstance(answer, dict):
        return {name: shown(value) for name, value in answer.items()}
    if isinstance(answer, list):
        return sorted((shown(one) for one in answer), key=_by_name)
    if isinstance(answer, str) and MEMBER_ID.match(answer):
        return "(member)"
    return answer


def _by_name(row: Plain) -> tuple[str, str, int]:
    if not isinstance(row, dict):
        return ("", str(row), 0)
    return (str(row.get("name")), str(row.get("topic_id")), row.get("partition_index", 0))


def test_there_are_two_hundred_requests() -> None:
    assert len(TITLES) == len(set(TITLES)) >= 200


@pytest.mark.parametrize("title", [*TITLES, *EXPIRING])
def test_answers_are_equal(answers: Answers, title: str) -> None:
    found = differences(answers.theirs[title], answers.ours[title])
    assert not found, "Apache Kafka's -> ours\n" + "\n".join(found)


def test_refused_requests_are_among_them(answers: Answers) -> None:
    """The table would prove little if all of it were refused, or nothing."""
    codes = {title: set(error_codes(answer)) - {0} for title, answer in answers.theirs.items()}
    assert sum(bool(found) for found in codes.values()) >= 30
    assert len(set().union(*codes.values())) >= 10


def error_codes(answer: Plain) -> Iterator[int]:
    if isinstance(answer, dict):
        if "error_code" in answer:
            yield answer["error_code"]
        answer = list(answer.values())
    if isinstance(answer, list):
        for one in answer:
            yield from error_codes(one)


def test_no_request_makes_our_broker_fail_inside(answers: Answers) -> None:
    assert answers.faults == []
