"""Client quotas in the controller."""

from __future__ import annotations

import math

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.configs.quotas import describe_quotas
from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from barnabas.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from tests.controller.lab import Lab

Component = tuple[str, int, str | None]


def _describe(lab: Lab, *components: Component, strict: bool = False) -> list[dict[str, str | None]]:
    request = DescribeClientQuotasRequest(
        components=[
            DescribeClientQuotasRequest.ComponentData(entity_type=kind, match_type=how, match=match)
            for kind, how, match in components
        ],
        strict=strict,
    )
    entries = describe_quotas(lab.image, request).entries
    assert entries is not None
    return [{part.entity_type: part.entity_name for part in entry.entity} for entry in entries]


def test_quotas_are_described_by_entity() -> None:
    # KIP-546
    lab = Lab()
    parts = AlterClientQuotasRequest
    entities: list[dict[str, str | None]] = [
        {"user": "a"},
        {"user": None},
        {"client-id": "c", "user": "a"},
        {"ip": "1.2.3.4"},
    ]
    for entity in entities:
        key = "connection_creation_rate" if "ip" in entity else "producer_byte_rate"
        entry = parts.EntryData(
            entity=[parts.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
            ops=[parts.OpData(key=key, value=10.0, remove=False)],
        )
        response = lab.send(parts(entries=[entry, entry], validate_only=False), AlterClientQuotasResponse)
        # A duplicate entity is rejected; what was decided before remains.
        assert [entry.error_code for entry in response.entries] == [ErrorCode.INVALID_REQUEST]
    exact, default, some = 0, 1, 2
    assert len(_describe(lab)) == 4
    assert _describe(lab, ("user", exact, "a"), strict=True) == [{"user": "a"}]
    assert len(_describe(lab, ("user", exact, "a"))) == 2
    assert _describe(lab, ("user", default, None)) == [{"user": None}]
    assert _describe(lab, ("user", some, None), ("client-id", exact, "c")) == [
        {"client-id": "c", "user": "a"}
    ]
    assert _describe(lab, ("ip", some, None)) == [{"ip": "1.2.3.4"}]


def test_quotas_are_described_in_the_order_of_apache_kafka() -> None:
    # As seen on Apache Kafka 4.1.0: clients' tests compare whole answers.
    lab = Lab()
    parts = AlterClientQuotasRequest
    everything = (
        "producer_byte_rate",
        "consumer_byte_rate",
        "controller_mutation_rate",
        "request_percentage",
    )
    asked: list[tuple[dict[str, str | None], tuple[str, ...]]] = [
        ({"user": "u1", "client-id": "é"}, ("producer_byte_rate", "controller_mutation_rate")),
        ({"client-id": None}, ("controller_mutation_rate",)),
        ({"user": "u3", "client-id": "é"}, tuple(reversed(everything))),
        ({"ip": "10.0.0.4"}, ("connection_creation_rate",)),
        ({"user": "x5", "client-id": None}, ("consumer_byte_rate",)),
        (
            {"user": "x2", "client-id": None},
            ("producer_byte_rate", "consumer_byte_rate", "request_percentage"),
        ),
    ]
    for entity, keys in asked:
        entry = parts.EntryData(
            entity=[parts.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
            ops=[parts.OpData(key=key, value=7.0, remove=False) for key in keys],
        )
        lab.send(parts(entries=[entry], validate_only=False), AlterClientQuotasResponse)
    entries = describe_quotas(lab.image, DescribeClientQuotasRequest(components=[], strict=False)).entries
    assert entries is not None
    shown = [
        ([part.entity_name for part in entry.entity], [value.key for value in entry.values])
        for entry in entries
    ]
    assert shown[:4] == [
        (["é", "u3"], list(everything)),
        (["10.0.0.4"], ["connection_creation_rate"]),
        (["é", "u1"], ["controller_mutation_rate", "producer_byte_rate"]),
        ([None, "x5"], ["consumer_byte_rate"]),
    ]
    # These two share a bucket.
    assert ([None, "x2"], ["consumer_byte_rate", "request_percentage", "producer_byte_rate"]) in shown[4:]
    assert ([None], ["controller_mutation_rate"]) in shown[4:]


@pytest.mark.parametrize(
    ("components", "message"),
    [
        ([("", 0, "a")], "Invalid empty entity type."),
        ([("zz", 0, "a")], "Unsupported entity type zz"),
        ([("user", 0, None)], "Request specified MATCH_TYPE_EXACT, but set match string to null."),
        ([("user", 1, "x")], "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."),
        ([("user", 2, "x")], "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."),
        ([("user", 9, "x")], "Unknown match type 9"),
        (
            [("user", 0, "x"), ("user", 0, "y")],
            "Entity type user cannot appear more than once in the filter.",
        ),
        (
            [("user", 0, "x"), ("ip", 0, "y")],
            (
                "Invalid entity filter component combination. IP filter component should not be used with user or"
                " clientId filter component."
            ),
        ),
    ],
)
def test_invalid_quota_filters_are_rejected(components: list[Component], message: str) -> None:
    with pytest.raises(KafkaError) as refused:
        _describe(Lab(), *components)
    assert refused.value.message == message


def _quota_entry(user: str, **values: float | None) -> AlterClientQuotasRequest.EntryData:
    """None removes a quota."""
    parts = AlterClientQuotasRequest
    return parts.EntryData(
        entity=[parts.EntityData(entity_type="user", entity_name=user)],
        ops=[
            parts.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()
        ],
    )


def test_an_entity_that_is_rejected_does_not_keep_the_others_from_it() -> None:
    lab = Lab()
    entries = [
        _quota_entry("twice", producer_byte_rate=1.0),
        _quota_entry("twice", producer_byte_rate=2.0),
        _quota_entry("wrong", no_such_quota=1.0),
        _quota_entry("right", producer_byte_rate=3.0),
    ]
    response = lab.send(
        AlterClientQuotasRequest(entries=entries, validate_only=False), AlterClientQuotasResponse
    )
    codes = {entry.entity[0].entity_name: entry.error_code for entry in response.entries}
    invalid = ErrorCode.INVALID_REQUEST
    assert codes == {"twice": invalid, "wrong": invalid, "right": ErrorCode.NONE}
    assert dict(lab.image.quotas[(("user", "right"),)]) == {"producer_byte_rate": 3.0}


def test_quotas_of_an_entity_are_set_and_removed_in_one_request() -> None:
    lab = Lab()
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")

    def alter(**values: float | None) -> dict[str, float]:
        request = AlterClientQuotasRequest(entries=[_quota_entry("u", **values)], validate_only=False)
        (entry,) = lab.send(request, AlterClientQuotasResponse).entries
        assert entry.error_code == ErrorCode.NONE
        return dict(lab.image.quotas.get((("user", "u"),), {}))

    assert alter(**dict.fromkeys(keys, 5.0)) == dict.fromkeys(keys, 5.0)
    for removed in keys:
        others = {key: 6.0 for key in keys if key != removed}
        assert alter(**{removed: None}, **others) == others
        assert alter(**dict.fromkeys(keys, 5.0)) == dict.fromkeys(keys, 5.0)
    assert alter(**dict.fromkeys(keys, None)) == {}
    assert alter(producer_byte_rate=None) == {}, "there was none"


@pytest.mark.parametrize(
    ("entity", "key", "largest", "type_name"),
    [
        ("user", "producer_byte_rate", float(2**63 - 1), "a LONG"),
        ("user", "consumer_byte_rate", float(2**63 - 1), "a LONG"),
        ("ip", "connection_creation_rate", float(2**31 - 1), "an INT"),
    ],
)
def test_a_quota_may_be_as_large_as_its_type(entity: str, key: str, largest: float, type_name: str) -> None:
    """The largest LONG is the default of Apache Kafka, and as a double it is one more."""
    lab = Lab()

    def altered(value: float) -> tuple[int, str | None]:
        parts = AlterClientQuotasRequest
        entry = parts.EntryData(
            entity=[parts.EntityData(entity_type=entity, entity_name="127.0.0.1")],
            ops=[parts.OpData(key=key, value=value, remove=False)],
        )
        request = parts(entries=[entry], validate_only=False)
        (reply,) = lab.send(request, AlterClientQuotasResponse).entries
        return reply.error_code, reply.error_message

    assert altered(largest) == (ErrorCode.NONE, None)
    assert altered(math.nextafter(largest, math.inf) if largest > 2**53 else largest + 1) == (
        ErrorCode.INVALID_REQUEST,
        f"Proposed value for {key} is too large for {type_name}.",
    )
    assert altered(1.5) == (ErrorCode.INVALID_REQUEST, f"{key} cannot be a fractional value.")
    assert altered(0.0) == (ErrorCode.INVALID_REQUEST, f"Quota {key} must be greater than 0")
