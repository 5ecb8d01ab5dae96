"""A broker with an authorizer beside Apache Kafka's: the same rules, the same requests, the same refusals.

As test_broker_answers.py does it, with rules about topics, groups, transactional ids and the cluster in place.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.verify.answers.asks.acls import ASKS, GROUPS, TXNS
from tests.verify.answers.both_answers import Answers, answers_of_both
from tests.verify.answers.broker_answers import RULES, by, differences, prepared, rule, rules_met
from tests.verify.answers.broker_ask import Plain, Raw, RawClient

SETTINGS = {
    "num.partitions": "2",
    "log.retention.ms": "-1",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "allow.everyone.if.no.acl.found": "true",
}
LEAST_REQUESTS = 300
APACHE_SETTLES_S = 0.4
OURS_SETTLES_S = 0.1
READY_PATIENCE_S = 60
READY_PAUSE_S = 0.2
LOADING = (14, 15, 16)
APIS: dict[str, str] = {
    title: one.api or "Raw"
    for one in ASKS
    for title in (
        [one.title] if isinstance(one, Raw) else [f"{one.title} v{version}" for version in one.versions]
    )
}
_RULE = (
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission_type",
)
_JAVA_ORDER = "the order of a hash map in Java"


def without_request(text: str | None) -> str | None:
    return None if text is None else re.sub(r"^Request .* needs (\w+) permission\.$", r"(it) needs \1.", text)


# fmt: off
OWN_RULES = (
    rule(r"DescribeAcls\.resources\.acls", by("principal", "host", "operation", "permission_type"), _JAVA_ORDER),
    rule(r"DescribeAcls\.resources", by("resource_type", "resource_name", "pattern_type"), _JAVA_ORDER),
    rule(r"DeleteAcls\.filter_results\.matching_acls", by(*_RULE), _JAVA_ORDER),
    rule(r"error_message", without_request, "theirs shows its request object, ours names API and principal"),
    rule(r"(OffsetCommit|OffsetFetch|OffsetDelete|TxnOffsetCommit)(\.groups)?\.topics", by("name"), _JAVA_ORDER),
    rule(r"AddPartitionsToTxn\.results_by_topic_v3_and_below", by("name"), _JAVA_ORDER),
    rule(r"ListGroups\.groups", by("group_id"), _JAVA_ORDER),
)
# fmt: on
_INSIDE = "theirs fails inside and answers -1 to the whole request; ours names the fault and takes the others"
DELIBERATE: dict[str, str] = {
    f"a bad rule: {title} v{version}": _INSIDE
    for title in ("any kind", "a pattern for filters", "any pattern", "any operation", "any permission")
    for version in (2, 3)
}


@pytest.fixture(scope="module")
def answers(oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Answers:
    home = tmp_path_factory.mktemp("authorizer") / "node"
    return answers_of_both(
        oracle, home, SETTINGS, asked, apache_settles_s=APACHE_SETTLES_S, ours_settles_s=OURS_SETTLES_S
    )


def asked(port: int, settles_s: float) -> dict[str, Plain]:
    raw_client = RawClient(port, settles_s)
    wait_for_coordinators(raw_client)
    answers = raw_client.run(ASKS)
    rules = (*RULES, *OWN_RULES)
    return {
        title: prepared(APIS[title], answer, raw_client.topic_names, rules)
        for title, answer in answers.items()
    }


def wait_for_coordinators(raw_client: RawClient) -> None:
    """The first question makes the coordinators' topics; until they are led nobody can be asked."""
    limit = time.monotonic() + READY_PATIENCE_S
    while (
        any(raw_client.one("FindCoordinator", 3, key=one, key_type=0)["error_code"] for one in GROUPS)
        or any(raw_client.one("FindCoordinator", 3, key=one, key_type=1)["error_code"] for one in TXNS)
        or any(raw_client.one("OffsetFetch", 7, group_id=one, topics=None)["error_code"] for one in GROUPS)
        or any(is_loading(raw_client, one) for one in TXNS)
    ):
        assert time.monotonic() < limit, "there are no coordinators"
        time.sleep(READY_PAUSE_S)


def is_loading(raw_client: RawClient, transactional_id: str) -> bool:
    answer = raw_client.one("DescribeTransactions", 0, transactional_ids=[transactional_id])
    return answer["transaction_states"][0]["error_code"] in LOADING


def test_the_table_is_whole() -> None:
    assert len(APIS) >= LEAST_REQUESTS
    assert set(DELIBERATE) <= set(APIS)


@pytest.mark.parametrize("title", [title for title in APIS if title not in DELIBERATE])
def test_answers_are_equal(answers: Answers, title: str) -> None:
    found = differences(answers.theirs[title], answers.ours[title])
    assert not found, "Apache Kafka's -> ours\n" + "\n".join(found)


def test_what_differs_on_purpose_still_does(answers: Answers) -> None:
    for title, why in DELIBERATE.items():
        assert differences(answers.theirs[title], answers.ours[title]), f"{title} no longer differs: {why}"


def test_every_rule_is_needed(answers: Answers) -> None:
    met = {
        one for title, answer in answers.theirs.items() for one in rules_met(APIS[title], answer, OWN_RULES)
    }
    assert [one.reason for one in OWN_RULES if one not in met] == []


def test_no_request_makes_our_broker_fail_inside(answers: Answers) -> None:
    assert answers.faults == []
