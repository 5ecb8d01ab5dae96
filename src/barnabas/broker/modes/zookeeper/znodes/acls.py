"""`/kafka-acl…`: the ACLs of a resource, and the notifications of their changes.

ACLs of literal names are below /kafka-acl, those of prefixed names below /kafka-acl-extended (KIP-290).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.broker.modes.zookeeper.znodes.json_data import MalformedZnodeError, decode, encode
from barnabas.security.acls import Operation, PatternType, Permission, ResourceType

VERSION = 1

# The resource types as they are named in paths, in the order in which Apache Kafka creates these.
TYPE_NAMES = {
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.GROUP: "Group",
    ResourceType.USER: "User",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.TOPIC: "Topic",
}
_TYPES = {name: kind for kind, name in TYPE_NAMES.items()}
# Created by every broker with an authorizer, in this order.
PERSISTENT_PATHS = (
    *(f"{paths.ACLS}/{name}" for name in TYPE_NAMES.values()),
    *(f"{paths.PREFIXED_ACLS}/{name}" for name in TYPE_NAMES.values()),
    paths.ACL_CHANGES,
    paths.EXTENDED_ACL_CHANGES,
)


class Resource(NamedTuple):
    """A pattern of resources."""

    type: ResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL

    @property
    def path(self) -> str:
        root = paths.ACLS if self.pattern is PatternType.LITERAL else paths.PREFIXED_ACLS
        return f"{root}/{TYPE_NAMES[self.type]}/{self.name}"


class AclEntry(NamedTuple):
    """Who may, or may not, do what from where."""

    principal: str
    host: str
    operation: Operation
    permission: Permission


def type_named(path: str, name: str) -> ResourceType:
    """The resource type of this name in a path."""
    kind = _TYPES.get(name)
    if kind is None:
        raise MalformedZnodeError(path, f"the resource type {name[:40]!r} is not known")
    return kind


def encode_acls(entries: Iterable[AclEntry]) -> bytes:
    return encode(
        {
            "acls": [
                {
                    "principal": entry.principal,
                    "permissionType": _camel(entry.permission.name),
                    "host": entry.host,
                    "operation": _camel(entry.operation.name),
                }
                for entry in entries
            ],
            "version": VERSION,
        }
    )


def decode_acls(path: str, data: bytes | None) -> list[AclEntry]:
    if data is None or not data:
        return []
    found = decode(path, data)
    if found.integer("version") != VERSION:
        raise found.fail("its version is not known")
    entries = []
    for each in found.nested_list("acls"):
        operation = _OPERATIONS.get(each.text("operation").lower())
        permission = _PERMISSIONS.get(each.text("permissionType").lower())
        if operation is None or permission is None:
            raise found.fail("an operation or a permission in it is not known")
        entries.append(AclEntry(each.text("principal"), each.text("host"), operation, permission))
    return entries


def encode_acl_change(resource: Resource) -> bytes:
    """Of literal names as text, as brokers before KIP-290 read it; else as JSON."""
    if resource.pattern is PatternType.LITERAL:
        return f"{resource.type.name}:{resource.name}".encode()
    return encode(
        {
            "version": VERSION,
            "resourceType": resource.type.name,
            "name": resource.name,
            "patternType": resource.pattern.name,
        }
    )


def acl_change_root(resource: Resource) -> str:
    """Where changes of this resource are announced."""
    return paths.ACL_CHANGES if resource.pattern is PatternType.LITERAL else paths.EXTENDED_ACL_CHANGES


def decode_acl_change(path: str, data: bytes | None) -> Resource:
    if data is not None and not data.startswith(b"{"):
        try:
            kind, colon, name = data.decode().partition(":")
        except UnicodeDecodeError as error:
            raise MalformedZnodeError(path, "it is no UTF-8") from error
        if not colon:
            raise MalformedZnodeError(path, "it has not the form TYPE:name")
        return Resource(_upper_type(path, kind), name)
    found = decode(path, data)
    pattern = found.text("patternType").upper()
    if pattern not in (PatternType.LITERAL.name, PatternType.PREFIXED.name):
        raise found.fail(f"the pattern type {pattern[:40]!r} is not known")
    return Resource(_upper_type(path, found.text("resourceType")), found.text("name"), PatternType[pattern])


def _upper_type(path: str, name: str) -> ResourceType:
    """`TRANSACTIONAL_ID`, as notifications have it, or `TransactionalId`."""
    if name in _TYPES:
        return _TYPES[name]
    kind = ResourceType.__members__.get(name.upper())
    if kind is None:
        raise MalformedZnodeError(path, f"the resource type {name[:40]!r} is not known")
    return kind


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


_OPERATIONS = {_camel(each.name).lower(): each for each in Operation}
_PERMISSIONS = {_camel(each.name).lower(): each for each in Permission}
