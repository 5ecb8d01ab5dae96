"""Two brokers' responses to the same requests, field by field: what may differ, and why.

`RULES` lists what is not compared, `DELIBERATE` the responses that differ on purpose.  The requests are in
`asks/`, their sending in `broker_ask.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.verify.answers.broker_ask import Plain, T

Change = Callable[[Plain], Plain]

# APIs that Apache Kafka's broker announces and ours does not: share groups, and voters that come and go.
SHARE_GROUPS = (76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92)
OTHER_VOTERS = (80, 81)
NOT_YET = frozenset(SHARE_GROUPS + OTHER_VOTERS)


# Records of the tables are older than any clock, but for one that is refused.
OUR_TIME = T + 10_000_000


@dataclass(frozen=True)
class Rule:
    """Values at the end of this path are changed before they are compared."""

    path: re.Pattern[str]
    change: Change
    reason: str


def rule(path: str, change: Change, reason: str) -> Rule:
    return Rule(re.compile(rf"(^|\.){path}$"), change, reason)


def by(*names: str) -> Change:
    return lambda rows: rows and sorted(rows, key=lambda row: tuple(str(row.get(name)) for name in names))


def shown_if_set(what: str, unset: int = -1) -> Change:
    return lambda value: value if value == unset else f"({what})"


class About:
    """A time that passes while it is reckoned: equal to one that is not far from it."""

    NEAR_MS = 250

    def __init__(self, value_ms: int) -> None:
        self.value_ms = value_ms

    def __eq__(self, other: object) -> bool:
        return isinstance(other, About) and abs(self.value_ms - other.value_ms) <= self.NEAR_MS

    def __hash__(self) -> int:
        return hash(About)

    def __repr__(self) -> str:
        return f"(about {self.value_ms} ms)"


def about(value_ms: int) -> Plain:
    return value_ms if value_ms == 0 else About(value_ms)


def known_to_us(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["api_key"] not in NOT_YET]


def broker_time(value: int) -> Plain:
    return value if value < OUR_TIME else "(time)"


def without_range(text: str | None) -> str | None:
    return None if text is None else re.sub(r"\[-?\d+, \d+]", "[(from), (to)]", text)


# The path is Api.field.field; lists have no part of their own.
# fmt: off
RULES: tuple[Rule, ...] = (
    rule(r"ApiVersions\.api_keys", known_to_us, "APIs that are not there yet (NOT_YET) are not announced"),
    rule(r"ApiVersions\.finalized_features_epoch", shown_if_set("offset"), "an offset of the metadata log, where NO_OP records come by the clock"),
    rule(r"(api_keys|supported_features|finalized_features)", by("api_key", "name"), "the order of a hash map in Java"),
    rule(r"DescribeQuorum.*\.(high_watermark|log_end_offset)", shown_if_set("offset"), "an offset of the metadata log, where NO_OP records come by the clock"),
    rule(r"DescribeQuorum.*\.last_(fetch|caught_up)_timestamp", shown_if_set("time"), "the clock"),
    rule(r"throttle_time_ms", about, "reckoned from what the clock says between two looks at it"),
    rule(r"log_append_time_ms", shown_if_set("time"), "the clock"),
    rule(r"Fetch.*records\.max_timestamp", broker_time, "the clock, where the topic wants the broker's time"),
    rule(r"Fetch.*records\.records\.timestamp", broker_time, "the clock, where the topic wants the broker's time"),
    rule(r"documentation", lambda text: text if not text else "(text)", "our words are our own"),
    rule(r"batch_index_error_message", without_range, "the limits of times are reckoned from the clock"),
    rule(r"Fetch\.session_id", shown_if_set("session", 0), "drawn at random"),
    rule(r"DescribeLogDirs.*\.(total|usable)_bytes", shown_if_set("size"), "the disk fills and empties meanwhile"),
    rule(r"Metadata\.topics\.partitions", by("partition_index"), "the order of a hash map in Java"),
    rule(r"Metadata\.topics", by("name", "topic_id", "error_code"), "the order of a hash map in Java"),
    rule(r"(CreateTopics|CreatePartitions)\.(topics|results)", by("name", "error_code", "error_message"), "the order of a hash map in Java"),
    rule(r"DeleteTopics\.responses", by("name", "topic_id", "error_code"), "the controller shuffles them, so that nobody relies on the order"),
    rule(r"(DescribeConfigs\.results|CreateTopics\.topics)\.configs", by("name"), "the order of a hash map in Java"),
    rule(r"(IncrementalAlterConfigs|AlterConfigs)\.responses", by("resource_type", "resource_name"), "the order of a hash map in Java"),
    rule(r"(Produce|Fetch|ListOffsets|OffsetForLeaderEpoch|DeleteRecords|DescribeProducers|DescribeLogDirs)\.(responses|topics|results\.topics)",
         by("name", "topic", "topic_id"), "the order of a hash map in Java"),
    rule(r"DescribeLogDirs\.results\.topics\.partitions", by("partition_index"), "the order of a hash map in Java"),
    rule(r"DescribeProducers.*\.active_producers", by("producer_id"), "the order of a hash map in Java"),
    rule(r"ListConfigResources\.config_resources", by("resource_type", "resource_name"), "the order of a hash map in Java"),
    rule(r"(AlterClientQuotas|DescribeClientQuotas)\.entries", by("entity"), "the order of a hash map in Java"),
    rule(r"ElectLeaders\.replica_election_results", by("topic"), "the order of a hash map in Java"),
    rule(r"AlterReplicaLogDirs\.results", by("topic_name"), "the order of a hash map in Java"),
    rule(r"DescribeUserScramCredentials\.results\.credential_infos", by("mechanism"), "the order of a hash map in Java"),
    rule(r"(Alter|Describe)UserScramCredentials\.results", by("user"), "the order of a hash map in Java"),
    rule(r"UpdateFeatures\.results", by("feature"), "the order of a hash map in Java"),
)

# fmt: on
# Title and version -> why ours is another.
DELIBERATE: dict[str, str] = {
    **dict.fromkeys(
        (f"write {codec} with a broken record v9" for codec in ("GZIP", "SNAPPY", "LZ4", "ZSTD")),
        "Apache Kafka stores a compressed batch with a record that no consumer can read; we refuse it (87)",
    ),
    "write empty ZSTD v9": "refused like any other broken compression (-1), where theirs happens to say 87",
    "a null topic name v12": "theirs fails inside and answers -1; ours names the fault: 17",
    "a telemetry subscription": "neither announces it; ours serves nothing that it does not announce",
    "the quorum's feature v2": "voters that were configured in the file stay so: a dynamic quorum is formatted",
}


def prepared(
    path: str, answer: Plain, topic_names: Mapping[str, str], rules: tuple[Rule, ...] = RULES
) -> Plain:
    """The answer with what may differ taken out; ids of topics are shown by the topics' names."""
    if isinstance(answer, dict):
        return {name: _field(f"{path}.{name}", value, topic_names, rules) for name, value in answer.items()}
    if isinstance(answer, list):
        return [prepared(path, one, topic_names, rules) for one in answer]
    if isinstance(answer, str) and answer in topic_names:
        return f"(id of {topic_names[answer]})"
    return answer


def _field(path: str, value: Plain, topic_names: Mapping[str, str], rules: tuple[Rule, ...]) -> Plain:
    value = prepared(path, value, topic_names, rules)
    for one in rules:
        if one.path.search(path):
            value = one.change(value)
    return value


def rules_met(path: str, answer: Plain, rules: tuple[Rule, ...] = RULES) -> set[Rule]:
    """The rules that some field of this answer falls under."""
    if isinstance(answer, list):
        return {rule for one in answer for rule in rules_met(path, one, rules)}
    if not isinstance(answer, dict):
        return set()
    met: set[Rule] = set()
    for name, value in answer.items():
        field = f"{path}.{name}"
        met |= {one for one in rules if one.path.search(field)} | rules_met(field, value, rules)
    return met


def differences(theirs: Plain, ours: Plain, path: str = "") -> list[str]:
    """Each field that differs: `path: theirs -> ours`."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        names = [*theirs, *(name for name in ours if name not in theirs)]
        return [
            line
            for name in names
            for line in differences(
                theirs.get(name, "(nothing)"), ours.get(name, "(nothing)"), f"{path}.{name}"
            )
        ]
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = enumerate(zip(theirs, ours, strict=True))
        return [line for n, (one, other) in pairs for line in differences(one, other, f"{path}[{n}]")]
    return [] if theirs == ours else [f"{path}: {theirs!r} -> {ours!r}"]
