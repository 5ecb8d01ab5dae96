"""Denied operations of a consumer, from our own authorized operations or from the ACLs of another
principal."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.base.ids import Uuid
from barnabas.client.admin.admin import Admin
from barnabas.client.admin.security.acls import AclBinding
from barnabas.client.explain.facts import Denial
from barnabas.protocol.records.metadata import AccessControlEntryRecord
from barnabas.security.acl_evaluation import AclIndex, Requester
from barnabas.security.acls import Operation, ResourceType

# The caller, if no principal is given; brokers do not report our own principal.
OURSELVES = "User:you"
NO_ACL = "no ACL covers it: only super users may, unless brokers have allow.everyone.if.no.acl.found=true"
_NEEDED = Operation.READ
_KINDS = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}
_ANYWHERE = "*"


def denials_of_operations(resource: str, allowed: Sequence[Operation] | None) -> list[Denial]:
    """Return READ as denied unless it is among our authorized operations (KIP-430)."""
    if allowed is None or _NEEDED in allowed:
        return []
    named = ", ".join(binding.name for binding in allowed) or "nothing"
    return [Denial(resource, _NEEDED.name, OURSELVES, f"allowed: {named}")]


async def denials_by_acls(
    admin: Admin, principal: str, resources: Sequence[tuple[str, str]], timeout_ms: int
) -> list[Denial]:
    """Evaluate the ACLs of a principal.  Only brokers know super users, and the default without ACLs."""
    rules = AclIndex()
    for number, binding in enumerate(await admin.describe_acls(timeout_ms=timeout_ms)):
        rules.add(_record(number, binding))
    lenient = AclIndex(allow_if_no_acl=True)
    for record in rules.records():
        lenient.add(record)
    requester = Requester(principal, _ANYWHERE)
    denials = []
    for kind, name in resources:
        verdict = rules.authorize(requester, _NEEDED, _KINDS[kind], name)
        if verdict.allowed:
            continue
        if verdict.acl is not None:
            why = f"an ACL denies it: {_shown(verdict.acl)}"
        elif lenient.authorize(requester, _NEEDED, _KINDS[kind], name).allowed:
            why = NO_ACL
        else:
            why = "there are ACLs for it, and none allows it"
        denials.append(Denial(f"{kind} {name}", _NEEDED.name, principal, why))
    return denials


def _record(number: int, binding: AclBinding) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=Uuid(number.to_bytes(16, "big")),
        resource_type=binding.resource_type,
        resource_name=binding.resource_name,
        pattern_type=binding.pattern_type,
        principal=binding.principal,
        # The consumer's hosts are unknown, so ACLs for single hosts are treated as ACLs for all hosts.
        host=_ANYWHERE,
        operation=binding.operation,
        permission_type=binding.permission,
    )


def _shown(rule: AccessControlEntryRecord) -> str:
    operation, kind = Operation(rule.operation).name, ResourceType(rule.resource_type).name
    return f"{rule.principal} is denied {operation} on {kind} {rule.resource_name}"
