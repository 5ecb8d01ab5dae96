"""The ACLs that the flags of `barnabas acls` describe: resources, and who may do what with them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from barnabas.cli.framework.exits import UsageError
from barnabas.cli.framework.flag_rules import FlagRules
from barnabas.client.admin.security.acls import AclBinding, AclBindingFilter
from barnabas.security.acls import (
    CLUSTER_NAME,
    KNOWN_OPERATIONS,
    WILDCARD,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

FAILED = "Error while executing ACL command: "
FLAGS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "delegation_token": ResourceType.DELEGATION_TOKEN,
    "user_principal": ResourceType.USER,
}
OPERATIONS = {
    operation.name.replace("_", ""): operation
    for operation in Operation
    if operation is not Operation.UNKNOWN
}
PRODUCER_TOPIC = (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
PRODUCER_TRANSACTIONS = (Operation.WRITE, Operation.DESCRIBE)
CONSUMER_TOPIC = (Operation.READ, Operation.DESCRIBE)


class Entry(NamedTuple):
    """Principal, host, operation, and whether it is allowed or denied."""

    principal: str
    host: str
    operation: Operation
    permission: Permission


class Resource(NamedTuple):
    """The resources that an ACL applies to."""

    type: ResourceType
    name: str
    pattern_type: PatternType

    def __str__(self) -> str:
        return (
            f"ResourcePattern(resourceType={self.type.name}, name={self.name}, "
            f"patternType={self.pattern_type.name})"
        )

    def filter(self, entry: Entry | None = None) -> AclBindingFilter:
        """Matches all ACLs of the resource, or the given one."""
        if entry is None:
            return AclBindingFilter(self.type, self.name, pattern_type=self.pattern_type)
        return AclBindingFilter(
            self.type,
            self.name,
            entry.principal,
            entry.operation,
            entry.permission,
            entry.host,
            self.pattern_type,
        )


Rules = Mapping[Resource, Sequence[Entry]]


def binding(resource: Resource, entry: Entry) -> AclBinding:
    return AclBinding(
        resource.type,
        resource.name,
        entry.principal,
        entry.operation,
        entry.permission,
        entry.host,
        resource.pattern_type,
    )


def entry_text(binding: AclBinding) -> str:
    return (
        f"(principal={binding.principal}, host={binding.host}, operation={binding.operation.name}, "
        f"permissionType={binding.permission.name})"
    )


def resources_of(options: Namespace) -> list[Resource]:
    """The resources that the flags name."""
    kind = PatternType[options.resource_pattern_type.upper()]
    resources = [
        Resource(resource_type, name.strip(), kind)
        for flag, resource_type in FLAGS.items()
        for name in getattr(options, flag) or ()
    ]
    if kind is PatternType.LITERAL and (options.cluster or options.idempotent):
        resources.append(_cluster())
    return list(dict.fromkeys(resources))


def _cluster() -> Resource:
    return Resource(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)


def principals_of(given: Iterable[str] | None) -> list[str]:
    principals = []
    for text in given or ():
        kind, colon, name = text.strip().partition(":")
        if not colon or not kind or not name:
            raise UsageError(
                f"{FAILED}expected a string in format principalType:principalName but got {text.strip()}"
            )
        principals.append(f"{kind}:{name}")
    return list(dict.fromkeys(principals))


def rules_of(flags: FlagRules, options: Namespace) -> Rules:
    """The ACLs to add or remove; an empty list of entries means all ACLs of the resource."""
    resources = resources_of(options)
    if not resources:
        flags.refuse(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    rules: dict[Resource, list[Entry]] = {}
    if not options.producer and not options.consumer:
        operations = [_operation(name) for name in options.operation or ("All",)]
        rules = {resource: entries_of(options, operations) for resource in resources}
    if options.producer:
        for resource in resources:
            if resource.type is ResourceType.TOPIC:
                rules[resource] = entries_of(options, PRODUCER_TOPIC)
            elif resource.type is ResourceType.TRANSACTIONAL_ID:
                rules[resource] = entries_of(options, PRODUCER_TRANSACTIONS)
        if options.idempotent:
            rules[_cluster()] = entries_of(options, (Operation.IDEMPOTENT_WRITE,))
    if options.consumer:
        for resource in resources:
            if resource.type is ResourceType.TOPIC:
                entries = entries_of(options, CONSUMER_TOPIC)
            elif resource.type is ResourceType.GROUP:
                entries = entries_of(options, (Operation.READ,))
            else:
                continue
            rules[resource] = list(dict.fromkeys([*rules.get(resource, ()), *entries]))
    _check(flags, options, rules)
    return rules


def _operation(text: str) -> Operation:
    return OPERATIONS.get(text.strip().upper().replace("_", ""), Operation.UNKNOWN)


def entries_of(options: Namespace, operations: Iterable[Operation]) -> list[Entry]:
    """Every principal with every operation from every host."""
    wanted = list(operations)
    sides = (
        (options.allow_principal, options.allow_host, Permission.ALLOW),
        (options.deny_principal, options.deny_host, Permission.DENY),
    )
    return [
        Entry(principal, host, operation, permission)
        for principals, hosts, permission in sides
        for principal in principals_of(principals)
        for operation in dict.fromkeys(wanted)
        for host in dict.fromkeys(host.strip() for host in hosts or (WILDCARD,))
    ]


def _check(flags: FlagRules, options: Namespace, rules: Rules) -> None:
    for resource, entries in rules.items():
        known = (*KNOWN_OPERATIONS[resource.type], Operation.ALL)
        if any(entry.operation not in known for entry in entries):
            names = ", ".join(operation.name for operation in known)
            flags.refuse(f"ResourceType {resource.type.name} only supports operations [{names}]")
        if options.add and not entries:
            flags.refuse(
                "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
            )
