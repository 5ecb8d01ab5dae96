"""An index of the existing ACLs by content, to detect duplicates without scanning."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.metadata.delta import Delta
from barnabas.protocol.records.metadata import AccessControlEntryRecord

# Resource type, name, pattern type, principal, host, operation, permission type.
Rule = tuple[int, str, int, str, str, int, int]


def rule_of(record: AccessControlEntryRecord) -> Rule:
    return (
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )


class ExistingAcls:
    """Follows the image.  A log may contain the same ACL under two ids, so they are counted."""

    def __init__(self) -> None:
        self._counts: dict[Rule, int] = {}

    def __contains__(self, rule: Rule) -> bool:
        return rule in self._counts

    def replace(self, records: Iterable[AccessControlEntryRecord]) -> None:
        self._counts = {}
        for record in records:
            self._add(rule_of(record))

    def follow(self, delta: Delta) -> None:
        for rule_id in delta.acls:
            before, after = delta.before.acls.get(rule_id), delta.image.acls.get(rule_id)
            if before is not None:
                self._remove(rule_of(before))
            if after is not None:
                self._add(rule_of(after))

    def _add(self, rule: Rule) -> None:
        self._counts[rule] = self._counts.get(rule, 0) + 1

    def _remove(self, rule: Rule) -> None:
        self._counts[rule] -= 1
        if not self._counts[rule]:
            del self._counts[rule]
