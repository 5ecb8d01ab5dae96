"""Evaluation of ACLs: names, prefixes and wildcards, hosts, DENY, implied operations, and the default."""

from __future__ import annotations

import itertools
import random

import pytest

from barnabas.base.ids import Uuid
from barnabas.protocol.records.metadata import AccessControlEntryRecord
from barnabas.security.acl_evaluation import AclIndex, Requester
from barnabas.security.acls import Operation, PatternType, Permission, ResourceType

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
ALLOW, DENY = Permission.ALLOW, Permission.DENY
BOB = Requester("User:bob", "10.0.0.1")
_ids = itertools.count(1)


def rule(
    name: str,
    operation: int = READ,
    permission: int = ALLOW,
    *,
    kind: int = TOPIC,
    prefixed: bool = False,
    principal: str = "User:bob",
    host: str = "*",
) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=Uuid.from_words(7, next(_ids)),
        resource_type=kind,
        resource_name=name,
        pattern_type=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def rules_with(*rules: AccessControlEntryRecord, default: bool = False) -> AclIndex:
    acl_rules = AclIndex(["User:root"], allow_if_no_acl=default)
    for acl in rules:
        acl_rules.add(acl)
    return acl_rules


def allowed(rules: AclIndex, operation: Operation, name: str, who: Requester = BOB) -> bool:
    return rules.authorize(who, operation, TOPIC, name).allowed


@pytest.mark.parametrize(
    ("acl", "name", "is_allowed"),
    [
        (rule("orders"), "orders", True),
        (rule("orders"), "orders2", False),
        (rule("orders", prefixed=True), "orders2", True),
        (rule("orders", prefixed=True), "orders", True),
        (rule("orders", prefixed=True), "order", False),
        (rule("*"), "orders", True),
        (rule("*", prefixed=True), "orders", False),
        (rule("*", prefixed=True), "*orders", True),
        (rule("orders", principal="User:*"), "orders", True),
        (rule("orders", principal="User:alice"), "orders", False),
        (rule("orders", principal="Group:bob"), "orders", False),
        (rule("orders", host="10.0.0.1"), "orders", True),
        (rule("orders", host="10.0.0.2"), "orders", False),
        (rule("orders", ALL), "orders", True),
        (rule("orders", WRITE), "orders", False),
        (rule("orders", kind=GROUP), "orders", False),
    ],
)
def test_a_single_acl_allows_what_it_matches(
    acl: AccessControlEntryRecord, name: str, is_allowed: bool
) -> None:
    assert allowed(rules_with(acl), READ, name) is is_allowed


@pytest.mark.parametrize("denied", [rule("o", READ, DENY), rule("o", ALL, DENY), rule("*", READ, DENY)])
@pytest.mark.parametrize("granted", [rule("o"), rule("*", ALL), rule("", ALL, prefixed=True)])
def test_deny_takes_precedence(denied: AccessControlEntryRecord, granted: AccessControlEntryRecord) -> None:
    assert not allowed(rules_with(denied, granted), READ, "o")
    assert not allowed(rules_with(granted, denied), READ, "o")
    assert not allowed(rules_with(granted, denied, default=True), READ, "o")
    assert allowed(rules_with(granted, denied), READ, "o", Requester("User:root", "10.0.0.1")), "a super user"


def test_allow_implies_describe_but_deny_does_not() -> None:
    for operation in (READ, WRITE, Operation.DELETE, Operation.ALTER):
        assert allowed(rules_with(rule("t", operation)), DESCRIBE, "t")
        assert allowed(rules_with(rule("t", operation, DENY), rule("t", DESCRIBE)), DESCRIBE, "t")
    for operation in (Operation.CREATE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS):
        assert not allowed(rules_with(rule("t", operation)), DESCRIBE, "t")
    assert allowed(rules_with(rule("t", Operation.ALTER_CONFIGS)), Operation.DESCRIBE_CONFIGS, "t")
    assert not allowed(rules_with(rule("t", DESCRIBE)), READ, "t")


def test_the_default_applies_only_to_resources_without_acls() -> None:
    nobody_elses = rules_with(rule("t", principal="User:alice"), default=True)
    assert not allowed(nobody_elses, READ, "t"), "an ACL for another principal denies everyone else"
    assert allowed(nobody_elses, READ, "u")
    assert not allowed(rules_with(rule("x")), READ, "u")


def test_removed_acls_have_no_effect() -> None:
    denied, granted = rule("te", READ, DENY, prefixed=True), rule("test")
    rules = rules_with(denied, granted)
    assert len(rules) == 2
    assert not allowed(rules, READ, "test")
    rules.remove(denied.id)
    assert allowed(rules, READ, "test")
    rules.remove(granted.id)
    rules.remove(granted.id)
    assert not allowed(rules, READ, "test")
    assert len(rules) == 0


@pytest.mark.parametrize(
    ("rules", "is_allowed"),
    [
        ([], False),
        ([rule("t", WRITE)], True),
        ([rule("t", READ)], False),
        ([rule("t", WRITE, host="10.9.9.9")], False),
        ([rule("t", WRITE), rule("t", WRITE, DENY)], False),
        ([rule("t", WRITE), rule("t", ALL, DENY, prefixed=True)], False),
        ([rule("te", WRITE), rule("t", WRITE, DENY, prefixed=True)], False),
        ([rule("t", WRITE, prefixed=True), rule("te", WRITE, DENY, prefixed=True)], True),
        ([rule("t", WRITE, prefixed=True), rule("t", WRITE, DENY)], True),
        ([rule("*", WRITE), rule("t", WRITE, DENY, prefixed=True)], True),
        ([rule("t", WRITE), rule("*", WRITE, DENY)], False),
    ],
)
def test_authorization_by_resource_type(rules: list[AccessControlEntryRecord], is_allowed: bool) -> None:
    # KIP-679: a producer may be idempotent if it may write to some topic.
    assert rules_with(*rules).authorize_any(BOB, WRITE, TOPIC) is is_allowed
    # ACLs of other operations, principals and hosts change nothing, wherever they are.
    others = [rule("t", READ), rule("t", READ, DENY), rule("t", WRITE, host="10.9.9.9")]
    assert rules_with(*others, *rules).authorize_any(BOB, WRITE, TOPIC) is is_allowed
    assert rules_with(*rules, *others).authorize_any(BOB, WRITE, TOPIC) is is_allowed
    assert rules_with(*rules).authorize_any(Requester("User:root", "::1"), WRITE, TOPIC)
    assert rules_with(*rules, default=True).authorize_any(BOB, WRITE, GROUP)


def slow(rules: list[AccessControlEntryRecord], name: str, operation: int, default: bool) -> bool:
    """Check every ACL, one after another."""

    def is_about(acl: AccessControlEntryRecord) -> bool:
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name in (name, "*")

    about = [acl for acl in rules if is_about(acl)]
    mine = [acl for acl in about if acl.principal == BOB.principal and acl.operation == operation]
    if not about:
        return default
    return bool(mine) and all(acl.permission_type == ALLOW for acl in mine)


def test_the_index_agrees_with_a_full_scan() -> None:
    rng = random.Random(1)
    names = ["*", *("".join(pair) for size in (1, 2, 3) for pair in itertools.product("ab", repeat=size))]
    for _ in range(60):
        rules = [
            rule(
                rng.choice(names),
                rng.choice((READ, WRITE)),
                rng.choice((ALLOW, ALLOW, DENY)),
                prefixed=rng.random() < 0.4,
                principal=rng.choice(("User:bob", "User:alice")),
            )
            for _ in range(rng.randrange(12))
        ]
        default = rng.random() < 0.5
        index = rules_with(*rules, default=default)
        for removed in rng.sample(rules, len(rules) // 3):
            index.remove(removed.id)
            rules.remove(removed)
        for name in names[1:]:
            for operation in (READ, WRITE):
                assert allowed(index, operation, name) == slow(rules, name, operation, default), (name, rules)
