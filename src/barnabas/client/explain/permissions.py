"""What a consumer may not do, by what the brokers say of ourselves or by the rules about somebody else."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.base.ids import Uuid
from barnabas.client.admin.admin import Admin
from barnabas.client.admin.security.acls import AclBinding
from barnabas.client.explain.facts import Denial
from barnabas.protocol.records.metadata import AccessControlEntryRecord
from barnabas.security.acls import Operation, ResourceType
from barnabas.security.rules import AclRules, Who

# Whoever runs this, when nobody else is named; brokers do not tell us our name.
OURSELVES = "User:you"
NO_RULE = "no rule is about it: only super users may, unless brokers have allow.everyone.if.no.acl.found=true"
_NEEDED = Operation.READ
_KINDS = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}
_ANYWHERE = "*"


def denials_of_operations(resource: str, allowed: Sequence[Operation] | None) -> list[Denial]:
    """What the broker says that we may do (KIP-430); a consumer has to read."""
    if allowed is None or _NEEDED in allowed:
        return []
    named = ", ".join(one.name for one in allowed) or "nothing"
    return [Denial(resource, _NEEDED.name, OURSELVES, f"allowed: {named}")]


async def denials_by_rules(
    admin: Admin, principal: str, resources: Sequence[tuple[str, str]], timeout_ms: int
) -> list[Denial]:
    """What the rules deny to a principal.  Super users, and what holds where no rule is, only brokers
    know."""
    rules = AclRules()
    for number, one in enumerate(await admin.describe_acls(timeout_ms=timeout_ms)):
        rules.add(_record(number, one))
    lenient = AclRules(allow_if_no_rule=True)
    for record in rules.records():
        lenient.add(record)
    who = Who(principal, _ANYWHERE)
    found = []
    for kind, name in resources:
        verdict = rules.judge(who, _NEEDED, _KINDS[kind], name)
        if verdict.allowed:
            continue
        if verdict.rule is not None:
            why = f"a rule denies it: {_shown(verdict.rule)}"
        elif lenient.judge(who, _NEEDED, _KINDS[kind], name).allowed:
            why = NO_RULE
        else:
            why = "there are rules about it, and none allows it"
        found.append(Denial(f"{kind} {name}", _NEEDED.name, principal, why))
    return found


def _record(number: int, one: AclBinding) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=Uuid(number.to_bytes(16, "big")),
        resource_type=one.resource_type,
        resource_name=one.resource_name,
        pattern_type=one.pattern_type,
        principal=one.principal,
        # The hosts of the consumer are not known, so rules for single hosts are taken for rules for all.
        host=_ANYWHERE,
        operation=one.operation,
        permission_type=one.permission,
    )


def _shown(rule: AccessControlEntryRecord) -> str:
    operation, kind = Operation(rule.operation).name, ResourceType(rule.resource_type).name
    return f"{rule.principal} is denied {operation} on {kind} {rule.resource_name}"
