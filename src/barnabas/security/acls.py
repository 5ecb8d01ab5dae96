"""ACLs as the protocol defines them (KIP-11, KIP-290): enumerations, filters and host addresses.

Evaluation belongs in acl_evaluation.py; storage belongs in the controller.
"""

from __future__ import annotations

import ipaddress
from enum import IntEnum
from typing import Protocol

from barnabas.protocol.records.metadata import AccessControlEntryRecord

WILDCARD = "*"
CLUSTER_NAME = "kafka-cluster"


class ResourceType(IntEnum):
    """Resource types; the first two appear only in filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of an ACL matches resources; the first three appear only in filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """Operations; in a bit field of operations (KIP-430) the number is the bit."""

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
    """Permission types; the first two appear only in filters."""

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
    """The filter of DescribeAcls and of each entry of DeleteAcls; null and ANY match everything."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def matches(acl_filter: AclFilter, record: AccessControlEntryRecord) -> bool:
    """Whether an ACL matches a filter."""
    return (
        acl_filter.resource_type_filter in (ResourceType.ANY, record.resource_type)
        and _matches_pattern(acl_filter, record)
        and acl_filter.principal_filter in (None, record.principal)
        and acl_filter.host_filter in (None, record.host)
        and acl_filter.operation in (Operation.ANY, record.operation)
        and acl_filter.permission_type in (Permission.ANY, record.permission_type)
    )


def _matches_pattern(acl_filter: AclFilter, record: AccessControlEntryRecord) -> bool:
    kind, name = acl_filter.pattern_type_filter, acl_filter.resource_name_filter
    if kind not in (PatternType.ANY, PatternType.MATCH, record.pattern_type):
        return False
    if name is None:
        return True
    if kind != PatternType.MATCH:
        return name == record.resource_name
    if record.pattern_type == PatternType.PREFIXED:
        return name.startswith(record.resource_name)
    return record.resource_name in (name, WILDCARD)


def acl_host(host: str) -> str:
    """Returns a peer's address in the form that ACLs use: as Java formats it, IPv6 without `::`."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    packed = address.packed
    groups = ":".join(f"{packed[index] << 8 | packed[index + 1]:x}" for index in range(0, len(packed), 2))
    return groups if address.scope_id is None else f"{groups}%{address.scope_id}"
