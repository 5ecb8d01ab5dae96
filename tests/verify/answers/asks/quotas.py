"""Quotas in use: cases of mutations, bytes, request time and connections, each by a client of its own.

A case is a few steps, of which each is asked on a new connection: a client that is throttled may open another.
Rates are so low that no token comes back while a case is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.verify.answers.asks.admin import quota
from tests.verify.answers.broker_ask import TopicId, batch

MUTATION, PRODUCE, FETCH, TIME = (
    "controller_mutation_rate",
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
)
RATE = 0.001
BYTES_A_SECOND = 1000.0
# More than a client may produce or fetch at once: ten seconds' worth.
LARGE = "x" * 25_000
SMALL = "x" * 500
EXACT, DEFAULT, SPECIFIED = 0, 1, 2


@dataclass(frozen=True)
class Step:
    """One request of the case's client, or of the administrator, who has no quota."""

    api: str
    version: int
    fields: dict[str, Any]
    by_admin: bool = False


@dataclass(frozen=True)
class Connect:
    """So many connections, one after another; what becomes of each."""

    count: int


@dataclass(frozen=True)
class Case:
    title: str
    steps: tuple[Step | Connect, ...]

    @property
    def client_id(self) -> str:
        return self.title.replace(" ", "-").replace(",", "")


def case(title: str, *steps: Step | Connect) -> Case:
    return Case(title, steps)


def create(version: int, *topics: tuple[str, int], by_admin: bool = False, **more: Any) -> Step:
    rows = [{"name": name, "num_partitions": count, "replication_factor": 1} for name, count in topics]
    return Step("CreateTopics", version, {"topics": rows, "timeout_ms": 9000, **more}, by_admin)


def grow(version: int, name: str, count: int, *, by_admin: bool = False, **more: Any) -> Step:
    rows = [{"name": name, "count": count, "assignments": None}]
    return Step("CreatePartitions", version, {"topics": rows, "timeout_ms": 9000, **more}, by_admin)


def delete(version: int, *names: str) -> Step:
    if version < 6:
        return Step("DeleteTopics", version, {"topic_names": list(names), "timeout_ms": 9000})
    return Step("DeleteTopics", version, {"topics": [{"name": name} for name in names], "timeout_ms": 9000})


def partitions_of(*names: str) -> Step:
    rows = [{"name": name} for name in names]
    return Step("Metadata", 12, {"topics": rows, "allow_auto_topic_creation": False}, True)


def produce(value: str, *, version: int = 9, acks: int = -1) -> Step:
    rows = [{"name": "bytes", "partition_data": [{"index": 0, "records": batch(value)}]}]
    return Step("Produce", version, {"acks": acks, "timeout_ms": 9000, "topic_data": rows})


def fetch(offset: int, *, version: int = 12, max_bytes: int = 1 << 20) -> Step:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    rows = [{"topic": "bytes", "partitions": [partition]}]
    return Step("Fetch", version, {"max_wait_ms": 1, "min_bytes": 1, "max_bytes": max_bytes, "topics": rows})


def limit(entity: dict[str, str | None], **values: float | None) -> Step:
    return Step("AlterClientQuotas", 1, {"entries": [quota(entity, **values)]}, True)


def shown(*components: tuple[str, int, str | None], strict: bool = False) -> Step:
    rows = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
    return Step("DescribeClientQuotas", 1, {"components": rows, "strict": strict}, True)


def broker_option(name: str, value: str | None) -> Step:
    config = {"name": name, "config_operation": 1 if value is None else 0, "value": value}
    rows = [{"resource_type": 4, "resource_name": "", "configs": [config]}]
    return Step("IncrementalAlterConfigs", 1, {"resources": rows}, True)


# fmt: off
_ADMINS: list[dict[str, str | None]] = [{"client-id": "judge"}, {"user": "ANONYMOUS", "client-id": "judge"}]
PREPARED: list[Case] = [
    case("the administrator has no limit", *[limit(entity, **{MUTATION: 1e6, TIME: 1e6}) for entity in _ADMINS]),
    case("topics for the cases", create(7, ("bytes", 1), ("grown", 2), ("grown-2", 2), ("grown-3", 2), *((f"gone-{n}", 2) for n in range(9)), by_admin=True)),
]
MUTATIONS: list[Case] = [
    case("every client has little", limit({"client-id": None}, **{MUTATION: RATE})),
    *[case(f"a first topic by version {version}", create(version, (f"first-{version}", 5))) for version in (2, 4, 5, 6, 7)],
    *[case(f"a second topic by version {version}", create(version, (f"one-{version}", 5)), create(version, (f"two-{version}", 1)), partitions_of(f"two-{version}")) for version in (3, 5, 6, 7)],
    case("a second topic by an earlier version", create(7, ("mixed-1", 5)), create(5, ("mixed-2", 2)), create(7, ("mixed-3", 1))),
    case("two topics at once", create(7, ("at-once-1", 5), ("at-once-2", 1))),
    case("two topics at once by an earlier version", create(5, ("at-once-3", 5), ("at-once-4", 2))),
    case("a topic only validated", create(7, ("not-made", 5), validate_only=True), create(7, ("not-made", 5))),
    case("a topic only validated by an earlier version", create(4, ("not-made-2", 5), validate_only=True)),
    case("topics that cannot be", create(7, ("bytes", 5)), create(7, ("a/b", 5)), create(7, ("none", 0)), create(7, ("at-last", 5)), create(7, ("a/b", 5)), create(7, ("bytes", 1))),
    case("a topic by assignment", Step("CreateTopics", 7, {"topics": [{"name": "assigned", "num_partitions": -1, "replication_factor": -1, "assignments": [{"partition_index": n, "broker_ids": [1]} for n in range(4)]}], "timeout_ms": 9000}), create(7, ("assigned-2", 1))),
    case("topics that are named twice", create(7, ("twice", 3), ("twice", 4), ("once", 4)), create(7, ("twice", 1))),
    case("partitions by a strict version", grow(3, "grown", 6), grow(3, "grown", 7), partitions_of("grown")),
    case("partitions by an earlier version", grow(2, "grown-2", 6), grow(1, "grown-2", 8), partitions_of("grown-2")),
    case("partitions only validated", grow(3, "grown-3", 9, validate_only=True), grow(3, "grown-3", 9)),
    case("partitions that are no growth", grow(3, "grown-3", 2), grow(3, "grown-3", 1), grow(3, "no-such", 9), grow(3, "grown-3", 4), grow(3, "grown-3", 2)),
    case("a deletion by a strict version", delete(6, "gone-0"), delete(6, "gone-1"), partitions_of("gone-0", "gone-1")),
    case("a deletion by version 5", delete(5, "gone-2"), delete(5, "gone-3"), partitions_of("gone-2", "gone-3")),
    case("a deletion by an earlier version", delete(4, "gone-4"), delete(1, "gone-5"), partitions_of("gone-4", "gone-5")),
    case("a deletion by id", Step("DeleteTopics", 6, {"topics": [{"name": None, "topic_id": TopicId("gone-6")}], "timeout_ms": 9000}), Step("DeleteTopics", 6, {"topics": [{"name": None, "topic_id": TopicId("gone-7")}], "timeout_ms": 9000})),
    case("a deletion of what there is not", delete(6, "no-such"), delete(6, "gone-8"), delete(6, "no-such")),
    case("what is no mutation in debt", create(7, ("in-debt", 5)), Step("Metadata", 12, {"topics": [{"name": "in-debt"}]}), Step("FindCoordinator", 3, {"key": "g", "key_type": 7}), Step("IncrementalAlterConfigs", 1, {"resources": [{"resource_type": 2, "resource_name": "in-debt", "configs": [{"name": "retention.ms", "config_operation": 0, "value": "5"}]}]}), Step("ListPartitionReassignments", 0, {"topics": None}), produce(SMALL)),
    case("a topic that comes of itself in debt", create(7, ("by-itself-1", 5)), Step("Metadata", 12, {"topics": [{"name": "by-itself-2"}], "allow_auto_topic_creation": True}), Step("Metadata", 12, {"topics": [{"name": "by-itself-2"}], "allow_auto_topic_creation": False})),
    case("a higher rate in debt", create(7, ("raised-1", 5)), limit({"client-id": "a-higher-rate-in-debt"}, **{MUTATION: 10 * RATE}), create(7, ("raised-2", 1))),
    case("no more limit in debt", limit({"client-id": "no-more-limit-in-debt"}, **{MUTATION: RATE}), create(7, ("freed-1", 5)), limit({"client-id": "no-more-limit-in-debt"}, **{MUTATION: 1e6}), Step("Metadata", 12, {"topics": []}), create(7, ("freed-2", 1))),
]
NAME = "which-of-all-the-limits"
LEVELS: list[tuple[str, dict[str, str | None]]] = [
    ("a client", {"client-id": NAME}),
    ("any user", {"user": None}),
    ("any client of any user", {"user": None, "client-id": None}),
    ("a client of any user", {"user": None, "client-id": NAME}),
    ("a user", {"user": "ANONYMOUS"}),
    ("any client of a user", {"user": "ANONYMOUS", "client-id": None}),
    ("a client of a user", {"user": "ANONYMOUS", "client-id": NAME}),
]


@dataclass(frozen=True)
class LevelCase(Case):
    """Of one client, whose limits become narrower and wider again."""

    @property
    def client_id(self) -> str:
        return NAME


PRECEDENCE: list[Case] = [
    *[LevelCase(f"the limit of {title}", (limit(entity, **{MUTATION: (n + 2) * RATE}), create(5, (f"level-{n}", 3)))) for n, (title, entity) in enumerate(LEVELS)],
    *[LevelCase(f"no more limit of {title}", (limit(entity, **{MUTATION: None}), create(5, (f"back-{n}", 3)))) for n, (title, entity) in reversed(list(enumerate(LEVELS)))],
    case("no client has a limit", limit({"client-id": None}, **{MUTATION: None}), create(7, ("free-1", 5)), create(7, ("free-2", 5))),
]
BYTES: list[Case] = [
    case("every client may send little", limit({"client-id": None}, **{PRODUCE: BYTES_A_SECOND, FETCH: BYTES_A_SECOND})),
    case("few bytes are sent", produce(SMALL), produce(SMALL)),
    *[case(f"many bytes are sent with acks {acks}", produce(LARGE, acks=acks), produce(SMALL, acks=acks)) for acks in (1, -1)],
    case("many bytes are sent by an earlier version", produce(LARGE, version=3), produce(SMALL, version=5)),
    case("a sender may fetch", produce(LARGE), fetch(0), Step("Metadata", 12, {"topics": []})),
    case("few bytes are fetched", fetch(0, max_bytes=600)),
    case("many bytes are fetched", fetch(4), fetch(0)),
    case("many bytes are fetched by an earlier version", fetch(4, version=4), fetch(0, version=7)),
    case("a reader may send", fetch(4), produce(SMALL)),
    case("a sender of its own limit", limit({"client-id": "a-sender-of-its-own-limit"}, **{PRODUCE: 1e9}), produce(LARGE), produce(LARGE)),
    case("no client has a limit of bytes", limit({"client-id": None}, **{PRODUCE: None, FETCH: None}), produce(LARGE), fetch(0, max_bytes=600)),
]
TIMED: list[tuple[str, int, dict[str, Any]]] = [
        ("Metadata", 12, {"topics": [{"name": "bytes"}]}), ("DescribeConfigs", 4, {"resources": [{"resource_type": 2, "resource_name": "bytes", "configuration_keys": ["retention.ms"]}]}),
        ("ListOffsets", 7, {"replica_id": -1, "topics": [{"name": "bytes", "partitions": [{"partition_index": 0, "timestamp": -2}]}]}),
        ("CreateTopics", 7, {"topics": [{"name": "bytes", "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 9000}),
        ("DescribeClientQuotas", 1, {"components": [{"entity_type": "ip", "match_type": SPECIFIED, "match": None}]}), ("DeleteGroups", 2, {"groups_names": []}), ("ListGroups", 4, {}),
]
REQUESTS: list[Case] = [
    case("every client may take little time", limit({"client-id": None}, **{TIME: 1e-6})),
    *[case(f"time of {api}", Step(api, version, fields)) for api, version, fields in TIMED],
    case("time of a sender", produce(SMALL)),
    case("no client has a limit of time", limit({"client-id": None}, **{TIME: None}), Step("Metadata", 12, {"topics": []})),
]
OF_IP = "connection_creation_rate"
CONNECTIONS: list[Case] = [
    case("connections of an address", limit({"ip": "127.0.0.1"}, **{OF_IP: 1.0}), Connect(13)),
    case("limits of addresses are shown", shown(("ip", EXACT, "127.0.0.1")), shown(("ip", DEFAULT, None)), shown(("ip", SPECIFIED, None), strict=True)),
    case("an address goes before the default", limit({"ip": None}, **{OF_IP: 1000.0}), Connect(2)),
    case("connections of any address", limit({"ip": "127.0.0.1"}, **{OF_IP: None}), Connect(13)),
    case("connections without a limit", limit({"ip": None}, **{OF_IP: None}), Connect(13)),
    case("a rate of connections of nothing", limit({"ip": "10.0.0.9"}, **{OF_IP: 0.0}), limit({"ip": "10.0.0.9"}, **{OF_IP: 0.5}), limit({"ip": "10.0.0.9"}, **{OF_IP: 3e9}), limit({"ip": "10.0.0.9"}, **{OF_IP: None})),
    case("connections of a broker", broker_option("max.connection.creation.rate", "5"), Connect(55)),
    case("connections of a listener", broker_option("max.connection.creation.rate", None), broker_option("listener.name.plaintext.max.connection.creation.rate", "5"), Connect(55)),
    case("no rates of a broker", broker_option("listener.name.plaintext.max.connection.creation.rate", None), Connect(3)),
    case("a rate of a broker that is not valid", broker_option("max.connection.creation.rate", "-1"), broker_option("max.connection.creation.rate", "many")),
]
# fmt: on
CASES = [*PREPARED, *MUTATIONS, *PRECEDENCE, *BYTES, *REQUESTS, *CONNECTIONS]
