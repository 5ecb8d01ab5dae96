"""Every answer of a broker of ours beside Apache Kafka's to the same requests, field by field.

Both start fresh with the same file, the same cluster id, on the same port and in a folder of the same name;
the requests of asks/asks.py go to one and then to the other over plain sockets, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.verify.answers.asks.asks import APIS, ASKS
from tests.verify.answers.both_answers import Answers, answers_of_both
from tests.verify.answers.broker_answers import DELIBERATE, RULES, differences, prepared, rules_met
from tests.verify.answers.broker_ask import Plain, RawClient

# Partition counts that are not given, and records older than a week, are part of the requests.
SETTINGS = {"num.partitions": "2", "log.retention.ms": "-1"}
LEAST_REQUESTS = 150
# Apache Kafka's brokers learn of a change a moment after the controller has answered; ours before.
APACHE_SETTLES_S = 0.4
OURS_SETTLES_S = 0.1
APIS_TO_COMPARE = {
    "ApiVersions",
    "Metadata",
    "Produce",
    "Fetch",
    "ListOffsets",
    "OffsetForLeaderEpoch",
    "InitProducerId",
    "CreateTopics",
    "CreatePartitions",
    "DeleteTopics",
    "DeleteRecords",
    "DescribeConfigs",
    "AlterConfigs",
    "IncrementalAlterConfigs",
    "DescribeCluster",
    "DescribeTopicPartitions",
    "DescribeLogDirs",
    "DescribeProducers",
    "DescribeQuorum",
    "UpdateFeatures",
    "ListConfigResources",
    "UnregisterBroker",
    "ElectLeaders",
    "AlterPartitionReassignments",
    "ListPartitionReassignments",
    "AlterReplicaLogDirs",
    "DescribeClientQuotas",
    "AlterClientQuotas",
    "DescribeUserScramCredentials",
    "AlterUserScramCredentials",
    "CreateDelegationToken",
    "RenewDelegationToken",
    "ExpireDelegationToken",
    "DescribeDelegationToken",
    "CreateAcls",
    "DescribeAcls",
    "DeleteAcls",
}


@pytest.fixture(scope="module")
def answers(oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Answers:
    home = tmp_path_factory.mktemp("answers") / "node"
    return answers_of_both(
        oracle, home, SETTINGS, asked, apache_settles_s=APACHE_SETTLES_S, ours_settles_s=OURS_SETTLES_S
    )


def asked(port: int, settles_s: float) -> dict[str, Plain]:
    raw_client = RawClient(port, settles_s)
    answers = raw_client.run(ASKS)
    return {title: prepared(APIS[title], answer, raw_client.topic_names) for title, answer in answers.items()}


def test_the_tables_are_whole() -> None:
    assert len(APIS) >= LEAST_REQUESTS
    assert set(APIS.values()) >= APIS_TO_COMPARE
    assert set(DELIBERATE) <= set(APIS)


@pytest.mark.parametrize("title", [title for title in APIS if title not in DELIBERATE])
def test_answers_are_equal(answers: Answers, title: str) -> None:
    found = differences(answers.theirs[title], answers.ours[title])
    assert not found, "Apache Kafka's -> ours\n" + "\n".join(found)


def test_what_differs_on_purpose_still_does(answers: Answers) -> None:
    for title, why in DELIBERATE.items():
        assert differences(answers.theirs[title], answers.ours[title]), f"{title} no longer differs: {why}"


def test_every_rule_is_needed(answers: Answers) -> None:
    met = {rule for title, answer in answers.theirs.items() for rule in rules_met(APIS[title], answer)}
    assert [rule.reason for rule in RULES if rule not in met] == []


def test_no_request_makes_our_broker_fail_inside(answers: Answers) -> None:
    assert answers.faults == []
