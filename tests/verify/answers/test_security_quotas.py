"""Quotas beside Apache Kafka's: who is refused, who is throttled and for how long, field by field.

The cases of asks/quotas.py go to Apache Kafka's broker and then to ours, as in test_broker_answers.py; throttle
times are compared as far as the clock allows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.verify.answers.asks.quotas import CASES, Case, Connect, Step
from tests.verify.answers.both_answers import Answers, answers_of_both
from tests.verify.answers.broker_answers import RULES, about, differences, prepared, rule
from tests.verify.answers.broker_ask import Plain, RawClient, ask

SETTINGS = {
    "num.partitions": "2",
    "log.retention.ms": "-1",
    "auto.create.topics.enable": "true",
}
LEAST_CASES = 60
APACHE_SETTLES_S = 0.5
OURS_SETTLES_S = 0.1
ANSWERED = "answered"
# Until the connections of earlier cases no longer count.
WINDOW_S = 12


class Near:
    """A throttle time: equal to one that differs by little, and never to none."""

    NEAR_MS = 1_500
    NEAR_PART = 0.03

    def __init__(self, value_ms: int) -> None:
        self.value_ms = value_ms

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Near):
            return False
        allowed_ms = max(self.NEAR_MS, self.NEAR_PART * max(self.value_ms, other.value_ms))
        return abs(self.value_ms - other.value_ms) <= allowed_ms

    def __hash__(self) -> int:
        return hash(Near)

    def __repr__(self) -> str:
        return f"(near {self.value_ms} ms)"


def near(value_ms: int) -> Plain:
    return value_ms if value_ms == 0 else Near(value_ms)


OWN_RULES = (
    rule(r"throttle_time_ms", near, "the clock goes on between two requests"),
    *(one for one in RULES if one.change is not about),
)


class QuotaClient:
    """Asks the cases: the administrator on one connection, the case's client on a new one each time."""

    def __init__(self, port: int, settles_s: float) -> None:
        self._port = port
        self._settles_s = settles_s
        self._admin = RawClient(port, settles_s)

    def answers(self, cases: list[Case]) -> dict[str, Plain]:
        found = {case.title: [self._step(case, step) for step in case.steps] for case in cases}
        self._admin.close()
        return found

    def _step(self, case: Case, step: Step | Connect) -> Plain:
        if isinstance(step, Connect):
            return self._connect(step.count)
        client = self._admin if step.by_admin else RawClient(self._port, 0, client_id=case.client_id)
        client.topic_ids, client.topic_names = self._admin.topic_ids, self._admin.topic_names
        one = ask(case.title, step.api, str(step.version), **step.fields)
        answer = client._send(one, step.version)
        if not step.by_admin:
            client.close()
        if one.settles or step.fields.get("allow_auto_topic_creation"):
            time.sleep(self._settles_s)
        return prepared(step.api, answer, self._admin.topic_names, OWN_RULES)

    def _connect(self, count: int) -> list[str]:
        time.sleep(WINDOW_S)
        return [self._connect_once() for _ in range(count)]

    def _connect_once(self) -> str:
        client = RawClient(self._port, 0)
        answer = client.one("ApiVersions", 0)
        client.close()
        return answer if isinstance(answer, str) else ANSWERED


@pytest.fixture(scope="module")
def answers(oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Answers:
    home = tmp_path_factory.mktemp("quotas") / "node"
    return answers_of_both(
        oracle,
        home,
        SETTINGS,
        lambda port, settles_s: QuotaClient(port, settles_s).answers(CASES),
        apache_settles_s=APACHE_SETTLES_S,
        ours_settles_s=OURS_SETTLES_S,
    )


def test_the_table_is_whole() -> None:
    titles = [case.title for case in CASES]
    assert len(titles) >= LEAST_CASES
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("title", [case.title for case in CASES])
def test_answers_are_equal(answers: Answers, title: str) -> None:
    found = differences(answers.theirs[title], answers.ours[title])
    assert not found, "Apache Kafka's -> ours\n" + "\n".join(found)


def test_quotas_are_felt(answers: Answers) -> None:
    """A table in which nobody is refused, throttled or turned away would compare nothing."""
    text = repr(answers.theirs)
    assert "'error_code': 89" in text
    assert "(near " in text
    assert "(the connection is closed)" in text


def test_no_request_makes_our_broker_fail_inside(answers: Answers) -> None:
    assert answers.faults == []
