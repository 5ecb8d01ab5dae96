"""ACL filters, and host addresses in ACLs."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.records.metadata import AccessControlEntryRecord
from barnabas.security.acls import Operation, PatternType, Permission, ResourceType, acl_host, matches
from tests.security.test_acl_evaluation import rule


def acl_filter(
    name: str | None = None, pattern: int = PatternType.ANY, kind: int = ResourceType.ANY, **more: Any
) -> DescribeAclsRequest:
    values: dict[str, object] = {"principal_filter": None, "host_filter": None, "operation": Operation.ANY}
    values |= {"permission_type": Permission.ANY, **more}
    return DescribeAclsRequest(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        **values,  # type: ignore[arg-type]  # by name
    )


ORDERS = rule("orders")
PREFIX = rule("ord", Operation.WRITE, Permission.DENY, prefixed=True, host="10.0.0.1")
EVERY = rule("*", principal="User:*")


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (acl_filter(), [ORDERS, PREFIX, EVERY]),
        (acl_filter(kind=ResourceType.GROUP), []),
        (acl_filter("orders"), [ORDERS]),
        (acl_filter("ord"), [PREFIX]),
        (acl_filter("orders", PatternType.LITERAL), [ORDERS]),
        (acl_filter("orders", PatternType.PREFIXED), []),
        (acl_filter("orders", PatternType.MATCH), [ORDERS, PREFIX, EVERY]),
        (acl_filter("or", PatternType.MATCH), [EVERY]),
        (acl_filter("*", PatternType.LITERAL), [EVERY]),
        (acl_filter(None, PatternType.PREFIXED), [PREFIX]),
        (acl_filter(principal_filter="User:*"), [EVERY]),
        (acl_filter(host_filter="*"), [ORDERS, EVERY]),
        (acl_filter(operation=Operation.WRITE), [PREFIX]),
        (acl_filter(permission_type=Permission.ALLOW), [ORDERS, EVERY]),
    ],
)
def test_filters_match_acls(requested: DescribeAclsRequest, expected: list[AccessControlEntryRecord]) -> None:
    assert [acl for acl in (ORDERS, PREFIX, EVERY) if matches(requested, acl)] == expected


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::00a", "2001:db8:0:0:0:0:0:a"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("node-1", "node-1"),
    ],
)
def test_addresses_have_the_format_of_acls(host: str, text: str) -> None:
    assert acl_host(host) == text
