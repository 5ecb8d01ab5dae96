"""What rules allow: names, prefixes and everything, hosts, denials first, what implies what, and the default."""

from __future__ import annotations

import itertools
import random

import pytest

from barnabas.base.ids import Uuid
from barnabas.protocol.records.metadata import AccessControlEntryRecord
from barnabas.security.acls import Operation, PatternType, Permission, ResourceType
from barnabas.security.rules import AclRules, Who

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
ALLOW, DENY = Permission.ALLOW, Permission.DENY
BOB = Who("User:bob", "10.0.0.1")
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


def judge(*rules: AccessControlEntryRecord, default: bool = False) -> AclRules:
    made = AclRules(["User:root"], allow_if_no_rule=default)
    for one in rules:
        made.add(one)
    return made


def allowed(rules: AclRules, operation: Operation, name: str, who: Who = BOB) -> bool:
    return rules.judge(who, operation, TOPIC, name).allowed


@pytest.mark.parametrize(
    ("one", "name", "is_allowed"),
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
def test_one_rule_allows_what_it_names(one: AccessControlEntryRecord, name: str, is_allowed: bool) -> None:
    assert allowed(judge(one), READ, name) is is_allowed


@pytest.mark.parametrize("denied", [rule("o", READ, DENY), rule("o", ALL, DENY), rule("*", READ, DENY)])
@pytest.mark.parametrize("granted", [rule("o"), rule("*", ALL), rule("", ALL, prefixed=True)])
def test_who_is_denied_is_not_allowed_whatever_else_holds(
    denied: AccessControlEntryRecord, granted: AccessControlEntryRecord
) -> None:
    assert not allowed(judge(denied, granted), READ, "o")
    assert not allowed(judge(granted, denied), READ, "o")
    assert not allowed(judge(granted, denied, default=True), READ, "o")
    assert allowed(judge(granted, denied), READ, "o", Who("User:root", "10.0.0.1")), "a super user"


def test_looking_is_implied_by_doing_and_by_no_denial() -> None:
    for operation in (READ, WRITE, Operation.DELETE, Operation.ALTER):
        assert allowed(judge(rule("t", operation)), DESCRIBE, "t")
        assert allowed(judge(rule("t", operation, DENY), rule("t", DESCRIBE)), DESCRIBE, "t")
    for operation in (Operation.CREATE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS):
        assert not allowed(judge(rule("t", operation)), DESCRIBE, "t")
    assert allowed(judge(rule("t", Operation.ALTER_CONFIGS)), Operation.DESCRIBE_CONFIGS, "t")
    assert not allowed(judge(rule("t", DESCRIBE)), READ, "t")


def test_the_default_holds_only_where_no_rule_is_about_the_resource() -> None:
    nobody_elses = judge(rule("t", principal="User:alice"), default=True)
    assert not allowed(nobody_elses, READ, "t"), "a rule for somebody else closes it to all others"
    assert allowed(nobody_elses, READ, "u")
    assert not allowed(judge(rule("x")), READ, "u")


def test_what_is_removed_no_longer_counts() -> None:
    denied, granted = rule("te", READ, DENY, prefixed=True), rule("test")
    rules = judge(denied, granted)
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
def test_any_resource_of_a_kind_will_do(rules: list[AccessControlEntryRecord], is_allowed: bool) -> None:
    # KIP-679: a producer may be idempotent if it may write to some topic.
    assert judge(*rules).judge_any(BOB, WRITE, TOPIC) is is_allowed
    assert judge(*rules).judge_any(Who("User:root", "::1"), WRITE, TOPIC)
    assert judge(*rules, default=True).judge_any(BOB, WRITE, GROUP)


def slow(rules: list[AccessControlEntryRecord], name: str, operation: int, default: bool) -> bool:
    """Every rule looked at, one after another."""

    def is_about(one: AccessControlEntryRecord) -> bool:
        if one.pattern_type == PatternType.PREFIXED:
            return name.startswith(one.resource_name)
        return one.resource_name in (name, "*")

    about = [one for one in rules if is_about(one)]
    mine = [one for one in about if one.principal == BOB.principal and one.operation == operation]
    if not about:
        return default
    return bool(mine) and all(one.permission_type == ALLOW for one in mine)


def test_the_index_agrees_with_looking_at_every_rule() -> None:
    chance = random.Random(1)
    names = ["*", *("".join(pair) for size in (1, 2, 3) for pair in itertools.product("ab", repeat=size))]
    for _ in range(60):
        rules = [
            rule(
                chance.choice(names),
                chance.choice((READ, WRITE)),
                chance.choice((ALLOW, ALLOW, DENY)),
                prefixed=chance.random() < 0.4,
                principal=chance.choice(("User:bob", "User:alice")),
            )
            for _ in range(chance.randrange(12))
        ]
        default = chance.random() < 0.5
        index = judge(*rules, default=default)
        for removed in chance.sample(rules, len(rules) // 3):
            index.remove(removed.id)
            rules.remove(removed)
        for name in names[1:]:
            for operation in (READ, WRITE):
                assert allowed(index, operation, name) == slow(rules, name, operation, default), (name, rules)
