"""Requests of administrators: elections, moves of replicas, quotas, SCRAM credentials, tokens, rules without a judge."""

from __future__ import annotations

from typing import Any

from tests.verify.answers.broker_ask import Ask, Raw, ask, batch, raw_request

PREFERRED, UNCLEAN = 0, 1
SHA_256, SHA_512 = 1, 2
EXACT, DEFAULT, SPECIFIED = 0, 1, 2
ANY = 1


def election(*topics: tuple[str, list[int]]) -> list[dict[str, Any]]:
    return [{"topic": name, "partitions": indexes} for name, indexes in topics]


def moves(*topics: tuple[str, dict[int, list[int] | None]]) -> list[dict[str, Any]]:
    return [
        {"name": name, "partitions": [{"partition_index": at, "replicas": to} for at, to in places.items()]}
        for name, places in topics
    ]


def moving(*topics: tuple[str, list[int]]) -> list[dict[str, Any]]:
    return [{"name": name, "partition_indexes": indexes} for name, indexes in topics]


def folder(path: str, *topics: tuple[str, list[int]]) -> dict[str, Any]:
    return {"path": path, "topics": [{"name": name, "partitions": indexes} for name, indexes in topics]}


def quota(entity: dict[str, str | None], **values: float | None) -> dict[str, Any]:
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
        "ops": [
            {"key": key, "value": value or 0.0, "remove": value is None} for key, value in values.items()
        ],
    }


def of(kind: str, how: int, name: str | None = None) -> dict[str, Any]:
    return {"entity_type": kind, "match_type": how, "match": name}


def upsertion(name: str, mechanism: int = SHA_256, iterations: int = 4096) -> dict[str, Any]:
    secret = {"salt": b"some salt", "salted_password": b"p" * 32}
    return {"name": name, "mechanism": mechanism, "iterations": iterations, **secret}


def rule(kind: int = 2, name: str = "t", pattern: int = 3, **more: Any) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
        **more,
    }


def rules_like(**more: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
        **more,
    }


# fmt: off
ASKS: list[Ask | Raw] = [
    ask("a topic for administrators", "CreateTopics", "7", topics=[{"name": "admin", "num_partitions": 2, "replication_factor": 1}], timeout_ms=9000),
    # ElectLeaders.
    ask("elect preferred leaders", "ElectLeaders", "0 1 2", topic_partitions=election(("admin", [0, 1]))),
    ask("elect unclean leaders", "ElectLeaders", "1 2", election_type=UNCLEAN, topic_partitions=election(("admin", [0]))),
    ask("elect in all partitions", "ElectLeaders", "0 2", topic_partitions=None),
    ask("elect in no partition", "ElectLeaders", "2", topic_partitions=[]),
    ask("elect in unknown partitions", "ElectLeaders", "0 2", topic_partitions=election(("admin", [7]), ("nothing", [0]))),
    ask("a strange election", "ElectLeaders", "2", election_type=9, topic_partitions=election(("admin", [0]))),
    ask("a strange election in all partitions", "ElectLeaders", "1", election_type=-1, topic_partitions=None),
    # Moves.
    ask("move to where it is", "AlterPartitionReassignments", "0 1", topics=moves(("admin", {0: [1], 1: [1]}))),
    ask("move to an unknown broker", "AlterPartitionReassignments", "0 1", topics=moves(("admin", {0: [2]}))),
    ask("move to nowhere", "AlterPartitionReassignments", "1", topics=moves(("admin", {0: []}))),
    ask("move to a broker twice", "AlterPartitionReassignments", "1", topics=moves(("admin", {0: [1, 1]}))),
    ask("move to a negative broker", "AlterPartitionReassignments", "1", topics=moves(("admin", {0: [-1]}))),
    ask("move what is unknown", "AlterPartitionReassignments", "0", topics=moves(("admin", {7: [1]}), ("nothing", {0: [1]}))),
    ask("move more replicas than allowed", "AlterPartitionReassignments", "1", topics=moves(("admin", {0: [1, 2]})), allow_replication_factor_change=False),
    ask("stop no move", "AlterPartitionReassignments", "0 1", topics=moves(("admin", {0: None}))),
    ask("move nothing", "AlterPartitionReassignments", "0 1", topics=[]),
    ask("moves", "ListPartitionReassignments", "0", topics=None),
    ask("moves of some", "ListPartitionReassignments", "0", topics=moving(("admin", [0, 9]), ("nothing", [0]))),
    ask("moves of none", "ListPartitionReassignments", "0", topics=[]),
    # Log directories.
    ask("move to a folder that there is not", "AlterReplicaLogDirs", "1 2", dirs=[folder("/no/such/folder", ("admin", [0, 1]))]),
    ask("move to a folder what is unknown", "AlterReplicaLogDirs", "2", dirs=[folder("/no/such/folder", ("nothing", [0])), folder("/other", ("admin", [9]))]),
    ask("move a name that is too long", "AlterReplicaLogDirs", "2", dirs=[folder("/no/such/folder", ("x" * 220, [0]))]),
    ask("move nothing to a folder", "AlterReplicaLogDirs", "1 2", dirs=[]),
    # Quotas.
    ask("no quotas", "DescribeClientQuotas", "0 1", components=[]),
    ask("quotas only looked at", "AlterClientQuotas", "0 1", entries=[quota({"user": "u"}, producer_byte_rate=1000.0)], validate_only=True),
    ask("quotas", "AlterClientQuotas", "1", entries=[
        quota({"user": "u"}, consumer_byte_rate=2e9, request_percentage=999.5),
        quota({"user": "u", "client-id": "c"}, consumer_byte_rate=3e9),
        quota({"user": None}, controller_mutation_rate=1e6),
        quota({"client-id": None}, request_percentage=5000.0),
        quota({"ip": "10.0.0.1"}, connection_creation_rate=1000.0),
    ]),
    ask("bad quotas", "AlterClientQuotas", "0 1", entries=[
        quota({}, consumer_byte_rate=1.0),
        quota({"user": ""}, consumer_byte_rate=1.0),
        quota({"planet": "x"}, consumer_byte_rate=1.0),
        quota({"user": "v"}, strange_rate=1.0),
        quota({"user": "w"}, consumer_byte_rate=0.0),
        quota({"user": "x"}, consumer_byte_rate=1.5),
        quota({"user": "y"}, producer_byte_rate=1e19),
        quota({"user": "z"}, connection_creation_rate=5.0),
        quota({"ip": "10.0.0.1"}, consumer_byte_rate=5.0),
        quota({"ip": "10.0.0.1", "user": "u"}, connection_creation_rate=5.0),
        quota({"ip": "10.0.0.300"}, connection_creation_rate=5.0),
    ]),
    ask("a quota twice", "AlterClientQuotas", "1", entries=[quota({"user": "t"}, consumer_byte_rate=1e9), quota({"user": "t"}, consumer_byte_rate=2e9)]),
    ask("quotas of all", "DescribeClientQuotas", "0 1", components=[]),
    ask("quotas of all, strictly", "DescribeClientQuotas", "1", components=[], strict=True),
    ask("quotas of a user", "DescribeClientQuotas", "1", components=[of("user", EXACT, "u")]),
    ask("quotas of a user alone", "DescribeClientQuotas", "1", components=[of("user", EXACT, "u")], strict=True),
    ask("quotas of a user and a client", "DescribeClientQuotas", "1", components=[of("user", EXACT, "u"), of("client-id", SPECIFIED)], strict=True),
    ask("quotas of the default user", "DescribeClientQuotas", "1", components=[of("user", DEFAULT)]),
    ask("quotas of addresses", "DescribeClientQuotas", "1", components=[of("ip", SPECIFIED)]),
    ask("quotas of a strange kind", "DescribeClientQuotas", "0 1", components=[of("planet", EXACT, "x")]),
    ask("quotas of an empty kind", "DescribeClientQuotas", "1", components=[of("", EXACT, "x")]),
    ask("quotas of a kind twice", "DescribeClientQuotas", "1", components=[of("user", EXACT, "x"), of("user", DEFAULT)]),
    ask("quotas of an address and a user", "DescribeClientQuotas", "1", components=[of("ip", SPECIFIED), of("user", SPECIFIED)]),
    ask("quotas by nothing", "DescribeClientQuotas", "1", components=[of("user", EXACT)]),
    ask("quotas by too much", "DescribeClientQuotas", "1", components=[of("user", SPECIFIED, "x")]),
    ask("quotas by a strange match", "DescribeClientQuotas", "1", components=[of("user", 9, "x")]),
    # Quotas held to: who is over its quota is told for how long, and a fetch gives nothing meanwhile.
    ask("a record to fetch", "Produce", "9", acks=-1, timeout_ms=9000, topic_data=[{"name": "admin", "partition_data": [{"index": 1, "records": batch("x" * 1000)}]}]),
    ask("a small quota", "AlterClientQuotas", "1", entries=[quota({"client-id": "judge"}, producer_byte_rate=220.0, consumer_byte_rate=109.0)]),
    ask("write over quota", "Produce", "9", acks=-1, timeout_ms=9000, topic_data=[{"name": "admin", "partition_data": [{"index": 0, "records": batch("x" * 2150)}]}]),
    *[ask(f"fetch over quota by {how}", "Fetch", "12", max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_epoch=epoch, topics=[{"topic": "admin", "partitions": [{"partition": 1, "partition_max_bytes": 1 << 20}]}]) for how, epoch in {"itself": -1, "session": 0}.items()],
    ask("no more small quota", "AlterClientQuotas", "1", entries=[quota({"client-id": "judge"}, producer_byte_rate=None, consumer_byte_rate=None)]),
    ask("quotas taken back", "AlterClientQuotas", "0", entries=[
        quota({"user": "u"}, consumer_byte_rate=None, request_percentage=None, producer_byte_rate=None),
        quota({"user": "u", "client-id": "c"}, consumer_byte_rate=None),
        quota({"user": None}, controller_mutation_rate=None),
        quota({"client-id": None}, request_percentage=None),
    ]),
    ask("quotas that are left", "DescribeClientQuotas", "1", components=[]),
    # SCRAM.
    ask("no credentials", "DescribeUserScramCredentials", "0", users=None),
    ask("credentials", "AlterUserScramCredentials", "0", upsertions=[upsertion("ann"), upsertion("ben", SHA_512, 8192)]),
    ask("another mechanism", "AlterUserScramCredentials", "0", upsertions=[upsertion("ann", SHA_512)]),
    ask("bad credentials", "AlterUserScramCredentials", "0", upsertions=[
        upsertion(""), upsertion("few", iterations=4095), upsertion("many", iterations=16_385), upsertion("odd", 9), upsertion("twice"), upsertion("twice", SHA_512),
    ], deletions=[{"name": "nobody", "mechanism": SHA_256}, {"name": "odder", "mechanism": 0}]),
    ask("credentials deleted and made", "AlterUserScramCredentials", "0", upsertions=[upsertion("ben")], deletions=[{"name": "ben", "mechanism": SHA_512}]),
    ask("all credentials", "DescribeUserScramCredentials", "0", users=None),
    ask("credentials of nobody in particular", "DescribeUserScramCredentials", "0", users=[]),
    ask("credentials of some", "DescribeUserScramCredentials", "0", users=[{"name": "ann"}, {"name": "nobody"}, {"name": "ben"}, {"name": "ben"}]),
    ask("a credential deleted", "AlterUserScramCredentials", "0", deletions=[{"name": "ben", "mechanism": SHA_512}]),
    ask("the credentials that are left", "DescribeUserScramCredentials", "0", users=None),
    ask("no change of credentials", "AlterUserScramCredentials", "0"),
    # Delegation tokens.
    ask("a token", "CreateDelegationToken", "1 2 3", renewers=[{"principal_type": "User", "principal_name": "r"}], max_lifetime_ms=1000),
    ask("a token for another", "CreateDelegationToken", "3", owner_principal_type="User", owner_principal_name="o", max_lifetime_ms=-1),
    ask("renew a token", "RenewDelegationToken", "1 2", hmac=b"abc", renew_period_ms=1000),
    ask("expire a token", "ExpireDelegationToken", "1 2", hmac=b"abc", expiry_time_period_ms=-1),
    ask("tokens", "DescribeDelegationToken", "1 2 3", owners=None),
    ask("tokens of somebody", "DescribeDelegationToken", "3", owners=[{"principal_type": "User", "principal_name": "r"}]),
    # Client telemetry, which nobody takes here.
    Raw("a telemetry subscription", raw_request(71, 0, bytes(17), flexible=True), "GetTelemetrySubscriptions", 0),
    Raw("telemetry", raw_request(72, 0, bytes(range(16)) + bytes(8), flexible=True), "PushTelemetry", 0),
    # Rules where nobody judges.
    ask("a rule without a judge", "CreateAcls", "1 2 3", creations=[rule(), rule(name="")]),
    ask("rules without a judge", "DescribeAcls", "1 3", **rules_like()),
    ask("no rules without a judge", "DeleteAcls", "1 3", filters=[rules_like(), rules_like(resource_type_filter=2)]),
]
# fmt: on
