"""ACLs in the controller."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
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
    lab.controller.state.load(lab.image)
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
