"""ACLs, quotas and producer ids in the controller."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.configs.quotas import describe_quotas
from barnabas.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from barnabas.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from barnabas.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from barnabas.security.acls import Operation, PatternType, Permission, ResourceType
from tests.controller.lab import Lab


def _rule(
    name: str = "t",
    *,
    kind: int = ResourceType.TOPIC,
    pattern: int = PatternType.LITERAL,
    principal: str = "User:a",
    operation: int = Operation.READ,
    permission: int = Permission.ALLOW,
) -> CreateAclsRequest.AclCreation:
    return CreateAclsRequest.AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=permission,
    )


def _create(lab: Lab, *rules: CreateAclsRequest.AclCreation) -> list[tuple[int, str | None]]:
    response = lab.send(CreateAclsRequest(creations=list(rules)), CreateAclsResponse)
    return [(result.error_code, result.error_message) for result in response.results]


def _filter(name: str | None = None, pattern: int = PatternType.ANY, **more: Any) -> DeleteAclsRequest.Filter:
    values: dict[str, object] = {
        "resource_type_filter": ResourceType.ANY,
        "resource_name_filter": name,
        "pattern_type_filter": pattern,
        "principal_filter": None,
        "host_filter": None,
        "operation": Operation.ANY,
        "permission_type": Permission.ANY,
    }
    return DeleteAclsRequest.Filter(**{**values, **more})


def test_deleted_acls_can_be_created_again_even_after_a_restart() -> None:
    lab = Lab()
    _create(lab, _rule(), _rule("u"))
    lab.send(DeleteAclsRequest(filters=[_filter("t")]), DeleteAclsResponse)
    lab.controller.load(lab.image)
    assert _create(lab, _rule(), _rule("u")) == [(0, "")] * 2
    assert sorted(record.resource_name for record in lab.image.acls.values()) == ["t", "u"]


def test_an_acl_is_stored_once() -> None:
    lab = Lab()
    assert _create(lab, _rule(), _rule(), _rule("u")) == [(0, "")] * 3
    assert len(lab.image.acls) == 2
    assert _create(lab, _rule()) == [(0, "")]
    assert len(lab.image.acls) == 2


NO_COLON = (
    "Could not parse principal from `a` (no colon is present separating the principal type from the principal"
    " name)"
)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (_rule(kind=ResourceType.ANY), "Invalid resourceType ANY"),
        (_rule(kind=77), "Invalid resourceType UNKNOWN"),
        (_rule(pattern=PatternType.MATCH), "Invalid patternType MATCH"),
        (_rule(operation=Operation.ANY), "Invalid operation ANY"),
        (_rule(permission=Permission.UNKNOWN), "Invalid permissionType UNKNOWN"),
        (_rule(""), "Invalid empty resource name"),
        (_rule(principal="a"), NO_COLON),
        (
            _rule("x", kind=ResourceType.CLUSTER),
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
    ],
)
def test_invalid_acls_are_rejected(rule: CreateAclsRequest.AclCreation, message: str) -> None:
    lab = Lab()
    assert _create(lab, rule, _rule()) == [(ErrorCode.INVALID_REQUEST, message), (0, "")]


@pytest.mark.parametrize(
    ("acl_filter", "left"),
    [
        (_filter(), set()),
        (_filter("topic-1", PatternType.LITERAL), {"topic-", "*", "other"}),
        (_filter("topic-1", PatternType.ANY), {"topic-", "*", "other"}),
        (_filter("topic-1", PatternType.MATCH), {"other"}),
        (_filter(None, PatternType.PREFIXED), {"topic-1", "*", "other"}),
        (_filter(principal_filter="User:b"), {"topic-1", "topic-", "*", "other"}),
        (_filter(operation=Operation.WRITE), {"topic-1", "topic-", "*", "other"}),
    ],
)
def test_delete_filters_remove_matching_acls(acl_filter: DeleteAclsRequest.Filter, left: set[str]) -> None:
    # KIP-290
    lab = Lab()
    rules = [_rule("topic-1"), _rule("topic-", pattern=PatternType.PREFIXED), _rule("*"), _rule("other")]
    _create(lab, *rules)
    response = lab.send(DeleteAclsRequest(filters=[acl_filter, acl_filter]), DeleteAclsResponse)
    assert {record.resource_name for record in lab.image.acls.values()} == left
    for result in response.filter_results:
        assert {acl.resource_name for acl in result.matching_acls} == {
            rule.resource_name for rule in rules
        } - left


def test_an_unknown_filter_is_rejected() -> None:
    lab = Lab()
    acl_filter = [_filter(None, PatternType.UNKNOWN), _filter(operation=Operation.UNKNOWN)]
    response = lab.send(DeleteAclsRequest(filters=acl_filter), DeleteAclsResponse)
    messages = [result.error_message for result in response.filter_results]
    assert messages == ["Unknown patternFilter.", "Unknown entryFilter."]


def test_producer_ids_are_allocated_in_blocks_of_a_thousand() -> None:
    # KIP-730
    lab = Lab()
    epoch = lab.join()
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    starts = [lab.send(request, AllocateProducerIdsResponse).producer_id_start for _ in range(3)]
    assert starts == [0, 1000, 2000]
    assert lab.image.next_producer_id == 3000
    with pytest.raises(KafkaError) as refused:
        lab.send(AllocateProducerIdsRequest(broker_id=1, broker_epoch=0), AllocateProducerIdsResponse)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


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
