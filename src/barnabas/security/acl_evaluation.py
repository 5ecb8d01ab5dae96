"""Evaluates ACLs for a principal, as Apache Kafka's StandardAuthorizer does (KIP-801).

Contains an index of ACLs by resource, and the evaluation.  The source of the ACLs, the request context and
audit logging belong in broker/security.

Evaluation considers the ACLs for the exact name, for every prefix of it, and for `*`.  DENY takes precedence
over ALLOW.  If ACLs exist for the resource but none matches, access is denied; the default applies only if
the resource has no ACL at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from barnabas.base.ids import Uuid
from barnabas.protocol.records.metadata import AccessControlEntryRecord
from barnabas.security.acls import WILDCARD, Operation, PatternType, Permission, ResourceType

EVERYBODY = "User:*"
# ALLOW for these implies DESCRIBE (KIP-11); DENY for one of them denies only that one.
_IMPLY_DESCRIBE = frozenset(
    {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
)
_IMPLY_DESCRIBE_CONFIGS = frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS})
_IMPLIED_BY: dict[int, frozenset[Operation]] = {
    Operation.DESCRIBE: _IMPLY_DESCRIBE,
    Operation.DESCRIBE_CONFIGS: _IMPLY_DESCRIBE_CONFIGS,
}
# An arbitrary resource name: it matches only super users and the default.
_ANY_NAME = "hardcode"

_Acls = dict[Uuid, AccessControlEntryRecord]


class Requester(NamedTuple):
    """The principal and host of a request."""

    principal: str
    host: str


class AuthorizationResult(NamedTuple):
    """The result.  `acl` is the deciding ACL; None if a super user or the default decided."""

    allowed: bool
    reason: str
    acl: AccessControlEntryRecord | None = None


_SUPER_USER = AuthorizationResult(True, "SuperUser")
_DENIED = AuthorizationResult(False, "DefaultDeny")
_ALLOWED = AuthorizationResult(True, "DefaultAllow")


class AclIndex:
    """All ACLs, indexed by resource type and name."""

    def __init__(self, super_users: Iterable[str] = (), *, allow_if_no_acl: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._default = _ALLOWED if allow_if_no_acl else _DENIED
        self._records: _Acls = {}
        self._literal: dict[tuple[int, str], _Acls] = {}
        self._prefixed: dict[tuple[int, str], _Acls] = {}
        # The number of ACLs per prefix length, by resource type: these are the prefixes of a name to look up.
        self._lengths: dict[int, dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self._records)

    def records(self) -> Iterable[AccessControlEntryRecord]:
        return self._records.values()

    # Updates ------------------------------------------------------------------------------------------------

    def add(self, record: AccessControlEntryRecord) -> None:
        """Add an ACL, replacing one with the same id."""
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
        """Remove an ACL; ignored if it does not exist."""
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

    # Evaluation ---------------------------------------------------------------------------------------------

    def authorize(
        self, requester: Requester, operation: Operation, kind: ResourceType, name: str
    ) -> AuthorizationResult:
        """Whether this principal may perform this operation on this resource."""
        if requester.principal in self._super_users:
            return _SUPER_USER
        allowing: AccessControlEntryRecord | None = None
        result = self._default
        for rules in self._matching_acls(kind, name):
            result = _DENIED
            for record in rules.values():
                if not _applies(record, requester, operation):
                    continue
                if record.permission_type != Permission.ALLOW:
                    return AuthorizationResult(False, "MatchingAcl", record)
                allowing = record
        return result if allowing is None else AuthorizationResult(True, "MatchingAcl", allowing)

    def _matching_acls(self, kind: int, name: str) -> Iterator[_Acls]:
        rules = self._literal.get((kind, name))
        if rules is not None:
            yield rules
        for size in self._lengths.get(kind, ()):
            if size <= len(name) and (rules := self._prefixed.get((kind, name[:size]))) is not None:
                yield rules
        if name != WILDCARD and (rules := self._literal.get((kind, WILDCARD))) is not None:
            yield rules

    def authorize_any(self, requester: Requester, operation: Operation, kind: ResourceType) -> bool:
        """Whether this principal may perform this operation on at least one (possible) resource of this type.

        As in Apache Kafka's authorizeByResourceType, READ and the like do not imply DESCRIBE here.
        """
        if self.authorize(requester, operation, kind, _ANY_NAME).allowed:
            return True
        allowed: list[AccessControlEntryRecord] = []
        denied: set[tuple[int, str]] = set()
        for record in self._records.values():
            if record.resource_type != kind or not _matches_principal(record, requester):
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


def _matches_principal(record: AccessControlEntryRecord, requester: Requester) -> bool:
    return record.principal in (requester.principal, EVERYBODY) and record.host in (requester.host, WILDCARD)


def _applies(record: AccessControlEntryRecord, requester: Requester, operation: Operation) -> bool:
    if not _matches_principal(record, requester):
        return False
    if record.operation in (operation, Operation.ALL):
        return True
    return record.permission_type == Permission.ALLOW and record.operation in _IMPLIED_BY.get(operation, ())


def _is_covered(record: AccessControlEntryRecord, denied: set[tuple[int, str]]) -> bool:
    """Whether a DENY covers everything that this ACL allows."""
    name, literal = record.resource_name, record.pattern_type == PatternType.LITERAL
    if literal and name == WILDCARD:
        return False
    if literal and (PatternType.LITERAL, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:size]) in denied for size in range(1, len(name) + 1))
