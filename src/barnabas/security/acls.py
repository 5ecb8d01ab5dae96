"""Access rules as they are stored, asked for and compared (KIP-11, KIP-290): words, filters, names of hosts.

What lives here: the numbers of the protocol, which operations a resource knows, and whether a stored rule is
among those that a filter means.  What may not: judging by rules (`rules`), storing them (controller).
"""

from __future__ import annotations

import ipaddress
from enum import IntEnum
from typing import Protocol

from barnabas.protocol.records.metadata import AccessControlEntryRecord

WILDCARD = "*"
CLUSTER_NAME = "kafka-cluster"


class ResourceType(IntEnum):
    """Kinds of resources; the first two are for filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a rule's name means resources; the first three are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """In a bit field of operations (KIP-430) the number is the bit."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """What a rule says; the first two are for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_CONFIGS = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
KNOWN_OPERATIONS: dict[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        *_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE, *_CONFIGS),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.IDEMPOTENT_WRITE,
        *_CONFIGS,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}


class AclFilter(Protocol):
    """What DescribeAcls and each part of DeleteAcls ask for; null and ANY mean all."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def matches(asked: AclFilter, record: AccessControlEntryRecord) -> bool:
    """Whether a rule is among those that a filter means."""
    return (
        asked.resource_type_filter in (ResourceType.ANY, record.resource_type)
        and _matches_pattern(asked, record)
        and asked.principal_filter in (None, record.principal)
        and asked.host_filter in (None, record.host)
        and asked.operation in (Operation.ANY, record.operation)
        and asked.permission_type in (Permission.ANY, record.permission_type)
    )


def _matches_pattern(asked: AclFilter, record: AccessControlEntryRecord) -> bool:
    kind, name = asked.pattern_type_filter, asked.resource_name_filter
    if kind not in (PatternType.ANY, PatternType.MATCH, record.pattern_type):
        return False
    if name is None:
        return True
    if kind != PatternType.MATCH:
        return name == record.resource_name
    if record.pattern_type == PatternType.PREFIXED:
        return name.startswith(record.resource_name)
    return record.resource_name in (name, WILDCARD)


def host_in_rules(host: str) -> str:
    """A peer's address in the form that rules give it: as Java writes it, IPv6 without `::`."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    packed = address.packed
    words = ":".join(f"{packed[at] << 8 | packed[at + 1]:x}" for at in range(0, len(packed), 2))
    return words if address.scope_id is None else f"{words}%{address.scope_id}"
