"""The requests of a session, besides Create, SetData and Delete; their paths are those of the ensemble.

Answers: Znode for GetData, Stat or None for Exists, names for GetChildren, Created for Create, Stat for
SetData and SetAcl, a list of Acl for GetAcl, a list of OperationResult for Multi, None for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from barnabas.runtime.zookeeper.client import (
    ANY_VERSION,
    Acl,
    Check,
    Create,
    Delete,
    Operation,
    SetData,
)

# A server closes the connection on a longer request (jute.maxbuffer); this is its default.
REQUEST_BYTES_MAX = 0xFFFFF
# What a request has besides its strings and data, at most; an ACL is counted apart.
_OVERHEAD_BYTES = 64


@dataclass(frozen=True, slots=True)
class Exists:
    path: str
    watch: bool


@dataclass(frozen=True, slots=True)
class GetData:
    path: str


@dataclass(frozen=True, slots=True)
class GetChildren:
    path: str
    watch: bool


@dataclass(frozen=True, slots=True)
class GetAcl:
    path: str


@dataclass(frozen=True, slots=True)
class SetAcl:
    path: str
    acl: Sequence[Acl]
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Sync:
    path: str


@dataclass(frozen=True, slots=True)
class Multi:
    operations: Sequence[Operation]

    @property
    def path(self) -> str:
        return self.operations[0].path


Read: TypeAlias = Exists | GetData | GetChildren | GetAcl
Write: TypeAlias = Create | SetData | Delete | SetAcl | Multi | Sync
Request: TypeAlias = Read | Write


def request_bytes(request: Request | Check) -> int:
    """How long the request is at most."""
    if isinstance(request, Multi):
        return _OVERHEAD_BYTES + sum(request_bytes(operation) for operation in request.operations)
    size = _OVERHEAD_BYTES + len(request.path.encode())
    if isinstance(request, Create | SetData) and request.data is not None:
        size += len(request.data)
    if isinstance(request, Create | SetAcl):
        size += sum(_OVERHEAD_BYTES + len(entry.scheme) + len(entry.id.encode()) for entry in request.acl)
    return size
