"""The judge: whether rules let a principal do something (as Apache Kafka's StandardAuthorizer does, KIP-801).

What lives here: an index of rules by what they are about, and the verdict.  What may not: where rules come
from, who asks and what is logged (broker/authorizer), and any IO.

A verdict looks at the rules of the very name, of every prefix of it and of `*`.  A rule that denies wins over
any that allows; rules about a resource that concern neither mean no; only where there is no rule about the
resource at all does the default hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from barnabas.base.ids import Uuid
from barnabas.protocol.records.metadata import AccessControlEntryRecord
from barnabas.security.acls import WILDCARD, Operation, PatternType, Permission, ResourceType

EVERYBODY = "User:*"
# Where these are allowed, so is looking (KIP-11); being denied one of them forbids only that one.
_IMPLY_DESCRIBE = frozenset(
    {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
)
_IMPLY_DESCRIBE_CONFIGS = frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS})
_IMPLIED_BY: dict[int, frozenset[Operation]] = {
    Operation.DESCRIBE: _IMPLY_DESCRIBE,
    Operation.DESCRIBE_CONFIGS: _IMPLY_DESCRIBE_CONFIGS,
}
# The name under which a question about any resource at all finds super users and the default.
_ANY_NAME = "hardcode"

_Rules = dict[Uuid, AccessControlEntryRecord]


class Who(NamedTuple):
    """Who asks, and from where."""

    principal: str
    host: str


class Verdict(NamedTuple):
    """Allowed or not; `rule` is the one that decided, None where it was a super user or the default."""

    allowed: bool
    why: str
    rule: AccessControlEntryRecord | None = None


_SUPER_USER = Verdict(True, "SuperUser")
_DENIED = Verdict(False, "DefaultDeny")
_ALLOWED = Verdict(True, "DefaultAllow")


class AclRules:
    """All rules, found by kind of resource and name."""

    def __init__(self, super_users: Iterable[str] = (), *, allow_if_no_rule: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._default = _ALLOWED if allow_if_no_rule else _DENIED
        self._records: _Rules = {}
        self._literal: dict[tuple[int, str], _Rules] = {}
        self._prefixed: dict[tuple[int, str], _Rules] = {}
        # How many rules there are for prefixes of each length, by kind: a name has that many to look up.
        self._lengths: dict[int, dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self._records)

    def records(self) -> Iterable[AccessControlEntryRecord]:
        return self._records.values()

    # Changing -----------------------------------------------------------------------------------------------

    def add(self, record: AccessControlEntryRecord) -> None:
        """A rule; one with the same id is replaced."""
        self.remove(record.id)
        self._records[record.id] = record
        key = (record.resource_type, record.resource_name)
        if record.pattern_type == PatternType.PREFIXED:
            self._prefixed.setdefault(key, {})[record.id] = record
            lengths = self._lengths.setdefault(record.resource_type, {})
            size = len(record.resource_name)
            lengths[size] = lengths.get(size, 0) + 1
        else:
            self._literal.setdefault(key, {})[record.id] = record

    def remove(self, rule_id: Uuid) -> None:
        """A rule that is not there is gone already."""
        record = self._records.pop(rule_id, None)
        if record is None:
            return
        key = (record.resource_type, record.resource_name)
        is_prefixed = record.pattern_type == PatternType.PREFIXED
        index = self._prefixed if is_prefixed else self._literal
        del index[key][rule_id]
        if not index[key]:
            del index[key]
        if is_prefixed:
            lengths, size = self._lengths[record.resource_type], len(record.resource_name)
            lengths[size] -= 1
            if not lengths[size]:
                del lengths[size]

    # Judging ------------------------------------------------------------------------------------------------

    def judge(self, who: Who, operation: Operation, kind: ResourceType, name: str) -> Verdict:
        """Whether this principal may do this to this resource."""
        if who.principal in self._super_users:
            return _SUPER_USER
        allowing: AccessControlEntryRecord | None = None
        verdict = self._default
        for rules in self._about(kind, name):
            verdict = _DENIED
            for record in rules.values():
                if not _concerns(record, who, operation):
                    continue
                if record.permission_type != Permission.ALLOW:
                    return Verdict(False, "MatchingAcl", record)
                allowing = record
        return verdict if allowing is None else Verdict(True, "MatchingAcl", allowing)

    def _about(self, kind: int, name: str) -> Iterator[_Rules]:
        found = self._literal.get((kind, name))
        if found is not None:
            yield found
        for size in self._lengths.get(kind, ()):
            if size <= len(name) and (found := self._prefixed.get((kind, name[:size]))) is not None:
                yield found
        if name != WILDCARD and (found := self._literal.get((kind, WILDCARD))) is not None:
            yield found

    def judge_any(self, who: Who, operation: Operation, kind: ResourceType) -> bool:
        """Whether this principal may do this to at least one resource of a kind, be there one or not.

        Here READ and its like do not imply DESCRIBE: nobody asks for that.
        """
        if self.judge(who, operation, kind, _ANY_NAME).allowed:
            return True
        allowed: list[AccessControlEntryRecord] = []
        denied: set[tuple[int, str]] = set()
        for record in self._records.values():
            if record.resource_type != kind or not _names(record, who):
                continue
            if record.operation not in (operation, Operation.ALL):
                continue
            if record.permission_type == Permission.ALLOW:
                allowed.append(record)
            else:
                denied.add((record.pattern_type, record.resource_name))
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(not _is_covered(record, denied) for record in allowed)


def _names(record: AccessControlEntryRecord, who: Who) -> bool:
    return record.principal in (who.principal, EVERYBODY) and record.host in (who.host, WILDCARD)


def _concerns(record: AccessControlEntryRecord, who: Who, operation: Operation) -> bool:
    if not _names(record, who):
        return False
    if record.operation in (operation, Operation.ALL):
        return True
    return record.permission_type == Permission.ALLOW and record.operation in _IMPLIED_BY.get(operation, ())


def _is_covered(record: AccessControlEntryRecord, denied: set[tuple[int, str]]) -> bool:
    """Whether what a rule allows is denied as a whole."""
    name, literal = record.resource_name, record.pattern_type == PatternType.LITERAL
    if literal and name == WILDCARD:
        return False
    if literal and (PatternType.LITERAL, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:size]) in denied for size in range(1, len(name) + 1))
