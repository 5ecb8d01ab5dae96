"""Requests in kazoo's form, and its answers as ours.

Contains what differs from kazoo's own requests: its transactions refuse null data, and it sets no watches
again after a lost connection.  Importing this imports kazoo.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kazoo.exceptions import EXCEPTIONS, ConnectionClosedError, ZookeeperError
from kazoo.protocol import serialization
from kazoo.security import ACL, Id

from barnabas.runtime.zookeeper.client import (
    Acl,
    Create,
    Created,
    Delete,
    Operation,
    OperationResult,
    SetData,
    Stat,
    Znode,
    ZooKeeperCode,
    ZooKeeperError,
)
from barnabas.runtime.zookeeper.requests import (
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    Multi,
    Request,
    SetAcl,
    Sync,
)

EPHEMERAL = 1
SEQUENTIAL = 2
# ZooKeeper's own client sets watches again in requests of about this size.
SET_WATCHES_BYTES = 128 * 1024

_INT = struct.Struct("!i")
_LONG = struct.Struct("!q")


@dataclass(frozen=True, slots=True)
class SetWatches:
    """Sets watches in a new connection; the server fires at once those that have missed something."""

    zxid: int
    data: Sequence[str]
    absent: Sequence[str]
    children: Sequence[str]

    type: ClassVar[int] = 101

    def serialize(self) -> bytes:
        parts = [_LONG.pack(self.zxid)]
        for paths in (self.data, self.absent, self.children):
            parts.append(_INT.pack(len(paths)))
            parts += [serialization.write_string(path) for path in paths]
        return b"".join(parts)

    @staticmethod
    def deserialize(_answer: bytes, _offset: int) -> None:
        return None


@dataclass(frozen=True, slots=True)
class KazooMulti:
    """A transaction whose operations are kazoo's requests; its answer tells the code of each."""

    operations: Sequence[Any]

    type: ClassVar[int] = serialization.Transaction.type

    def serialize(self) -> bytes:
        return bytes(serialization.Transaction(self.operations).serialize())

    @staticmethod
    def deserialize(answer: bytes, offset: int) -> list[Any]:
        return list(serialization.Transaction.deserialize(answer, offset))


def kazoo_request(request: Request, watcher: Any) -> Any:
    """The request as kazoo sends it; `watcher` is what kazoo is to call for a watch."""
    if isinstance(request, Exists):
        return serialization.Exists(request.path, watcher if request.watch else None)
    if isinstance(request, GetData):
        return serialization.GetData(request.path, None)
    if isinstance(request, GetChildren):
        return serialization.GetChildren(request.path, watcher if request.watch else None)
    if isinstance(request, GetAcl):
        return serialization.GetACL(request.path)
    if isinstance(request, SetAcl):
        return serialization.SetACL(request.path, kazoo_acl(request.acl), request.version)
    if isinstance(request, Sync):
        return serialization.Sync(request.path)
    if isinstance(request, Multi):
        return KazooMulti([_operation(operation) for operation in request.operations])
    return _operation(request)


def _operation(operation: Operation) -> Any:
    if isinstance(operation, Create):
        flags = (EPHEMERAL if operation.ephemeral else 0) | (SEQUENTIAL if operation.sequential else 0)
        return serialization.Create(operation.path, operation.data, kazoo_acl(operation.acl), flags)
    if isinstance(operation, SetData):
        return serialization.SetData(operation.path, operation.data, operation.version)
    if isinstance(operation, Delete):
        return serialization.Delete(operation.path, operation.version)
    return serialization.CheckVersion(operation.path, operation.version)


def answer_of(request: Request, value: Any) -> Any:
    """kazoo's answer as that of `requests`; raises ZooKeeperError for a transaction that has failed."""
    if isinstance(request, Exists):
        return None if value is None else stat_of(value)
    if isinstance(request, GetData):
        return Znode(value[0], stat_of(value[1]))
    if isinstance(request, GetAcl):
        return acl_of(value[0])
    if isinstance(request, Multi):
        return _multi_results(request.operations, value)
    if isinstance(request, Create):
        return Created(value)
    if isinstance(request, SetData | SetAcl):
        return stat_of(value)
    return value if isinstance(request, GetChildren) else None


def _multi_results(operations: Sequence[Operation], results: Sequence[Any]) -> list[OperationResult]:
    """What each operation gave; raises the first failure, which is the one that ended the transaction."""
    values: list[OperationResult] = []
    for operation, result in zip(operations, results, strict=False):
        if isinstance(result, Exception):
            # Those before it were rolled back (code 0), those after it were not tried.
            if getattr(result, "code", 0):
                raise ZooKeeperError(code_of(result), operation.path)
        elif isinstance(operation, Create):
            values.append(Created(result))
        elif isinstance(operation, SetData):
            values.append(stat_of(result))
        else:
            values.append(None)
    if len(values) != len(operations):
        raise ZooKeeperError(ZooKeeperCode.RUNTIME_INCONSISTENCY, operations[0].path)
    return values


def stat_of(stat: Any) -> Stat:
    return Stat(
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        version=stat.version,
        cversion=stat.cversion,
        aversion=stat.aversion,
        ephemeral_owner=stat.ephemeralOwner,
        ctime_ms=stat.ctime,
        mtime_ms=stat.mtime,
        data_length=stat.dataLength,
        children_count=stat.numChildren,
        pzxid=stat.pzxid,
    )


def kazoo_acl(acl: Sequence[Acl]) -> list[Any]:
    return [ACL(entry.permissions, Id(entry.scheme, entry.id)) for entry in acl]


def acl_of(entries: Sequence[Any]) -> list[Acl]:
    return [Acl(entry.perms, entry.id.scheme, entry.id.id or "") for entry in entries]


def code_of(error: BaseException) -> ZooKeeperCode:
    """The code of kazoo's exception."""
    if isinstance(error, ConnectionClosedError):
        return ZooKeeperCode.SESSION_EXPIRED
    if isinstance(error, ZookeeperError):
        try:
            return ZooKeeperCode(error.code)
        except ValueError:
            return ZooKeeperCode.SYSTEM_ERROR
    return ZooKeeperCode.MARSHALLING_ERROR


class _UnknownCodeError(ZookeeperError):  # type: ignore[misc]  # kazoo has no types
    """A code of a newer ZooKeeper, which would otherwise end kazoo's thread."""

    code = ZooKeeperCode.SYSTEM_ERROR.value


EXCEPTIONS.default_factory = lambda: _UnknownCodeError
