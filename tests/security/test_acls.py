"""Rules that a filter means, and addresses as rules write them."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.records.metadata import AccessControlEntryRecord
from barnabas.security.acls import Operation, PatternType, Permission, ResourceType, host_in_rules, matches
from tests.security.test_rules import rule


def asked(
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
    ("wanted", "found"),
    [
        (asked(), [ORDERS, PREFIX, EVERY]),
        (asked(kind=ResourceType.GROUP), []),
        (asked("orders"), [ORDERS]),
        (asked("ord"), [PREFIX]),
        (asked("orders", PatternType.LITERAL), [ORDERS]),
        (asked("orders", PatternType.PREFIXED), []),
        (asked("orders", PatternType.MATCH), [ORDERS, PREFIX, EVERY]),
        (asked("or", PatternType.MATCH), [EVERY]),
        (asked("*", PatternType.LITERAL), [EVERY]),
        (asked(None, PatternType.PREFIXED), [PREFIX]),
        (asked(principal_filter="User:*"), [EVERY]),
        (asked(host_filter="*"), [ORDERS, EVERY]),
        (asked(operation=Operation.WRITE), [PREFIX]),
        (asked(permission_type=Permission.ALLOW), [ORDERS, EVERY]),
    ],
)
def test_a_filter_means_rules(wanted: DescribeAclsRequest, found: list[AccessControlEntryRecord]) -> None:
    assert [one for one in (ORDERS, PREFIX, EVERY) if matches(wanted, one)] == found


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
def test_addresses_are_written_as_in_rules(host: str, text: str) -> None:
    assert host_in_rules(host) == text
