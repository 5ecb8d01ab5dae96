"""The tree of znodes: what a transaction changes, and whether it may; without time, sessions or watches.

The leader carries out operations and so decides; what it has decided are `Change`s, which every server
applies to a tree of its own.  What a client watches belongs to its connection, or session: `Watched`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

from barnabas.runtime.zookeeper.client import (
    ANY_VERSION,
    Acl,
    Check,
    Create,
    Created,
    Operation,
    OperationResult,
    SetData,
    Stat,
    WatchEvent,
    WatchKind,
    ZooKeeperCode,
    ZooKeeperError,
)
from barnabas.runtime.zookeeper.client import Znode as ZnodeRead
from barnabas.runtime.zookeeper.requests import Exists, GetAcl, GetChildren, GetData, Read, SetAcl

READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16
EVERYBODY = ("world", "anyone")


@dataclass(slots=True)
class Znode:
    """A znode, which is never the same object in two trees."""

    data: bytes | None
    acl: tuple[Acl, ...]
    czxid: int
    time_ms: int
    owner: int
    mzxid: int = 0
    pzxid: int = 0
    mtime_ms: int = 0
    version: int = 0
    aversion: int = 0
    # Creations of children, which number sequential znodes.
    creations: int = 0
    children: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.mzxid = self.pzxid = self.czxid
        self.mtime_ms = self.time_ms

    def stat(self) -> Stat:
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            version=self.version,
            # Creations and deletions.
            cversion=2 * self.creations - len(self.children),
            aversion=self.aversion,
            ephemeral_owner=self.owner,
            ctime_ms=self.time_ms,
            mtime_ms=self.mtime_ms,
            data_length=0 if self.data is None else len(self.data),
            children_count=len(self.children),
            pzxid=self.pzxid,
        )


@dataclass(frozen=True, slots=True)
class CreatedZnode:
    path: str
    data: bytes | None
    acl: tuple[Acl, ...]
    owner: int


@dataclass(frozen=True, slots=True)
class ChangedZnode:
    path: str
    data: bytes | None


@dataclass(frozen=True, slots=True)
class DeletedZnode:
    path: str


@dataclass(frozen=True, slots=True)
class ChangedAcl:
    path: str
    acl: tuple[Acl, ...]


Change: TypeAlias = CreatedZnode | ChangedZnode | DeletedZnode | ChangedAcl


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


class ZnodeTree:
    """All znodes, by path."""

    def __init__(self) -> None:
        self.znodes: dict[str, Znode] = {}
        for path in ("/", "/zookeeper"):
            self.znodes[path] = Znode(None, (Acl(31, *EVERYBODY),), 0, 0, 0)
        self.znodes["/"].children.add("zookeeper")

    def get(self, path: str) -> Znode | None:
        return self.znodes.get(path)

    def read(self, path: str) -> Znode:
        """The znode, whose data may be read; otherwise NO_NODE or NO_AUTH."""
        znode = self._existing(path)
        _permit(znode, READ, path)
        return znode

    def answer(self, request: Read) -> Any:
        """What a server answers; raises ZooKeeperError."""
        path = request.path
        if isinstance(request, Exists):
            znode = self.get(path)
            return None if znode is None else znode.stat()
        if isinstance(request, GetData):
            znode = self.read(path)
            return ZnodeRead(znode.data, znode.stat())
        if isinstance(request, GetChildren):
            return sorted(self.read(path).children)
        if isinstance(request, GetAcl):
            return list(self._existing(path).acl)
        assert_never(request)

    def owned_by(self, session: int) -> list[str]:
        """The ephemeral znodes of a session."""
        return [path for path, znode in self.znodes.items() if znode.owner == session]

    def copy(self) -> ZnodeTree:
        """The same tree, which changes on its own."""
        copied = ZnodeTree()
        copied.znodes = {path: _copied(znode) for path, znode in self.znodes.items()}
        return copied

    # ----------------------------------------------------------------------------------------- the leader's

    def carry_out(
        self, operations: Sequence[Operation | SetAcl], session: int, zxid: int, time_ms: int
    ) -> tuple[list[Change], list[OperationResult]]:
        """Carry out all of them or, raising ZooKeeperError, nothing."""
        changes: list[Change] = []
        results: list[OperationResult] = []
        before: dict[str, Znode | None] = {}
        try:
            for operation in operations:
                change, result = self._decide(operation, session)
                if change is not None:
                    for path in (change.path, parent_of(change.path)):
                        known = self.znodes.get(path)
                        before.setdefault(path, None if known is None else _copied(known))
                    self.apply(change, zxid, time_ms)
                    changes.append(change)
                if isinstance(change, ChangedZnode | ChangedAcl):
                    result = self.znodes[change.path].stat()
                results.append(result)
        except ZooKeeperError:
            for path, znode in before.items():
                if znode is None:
                    self.znodes.pop(path, None)
                else:
                    self.znodes[path] = znode
            raise
        return changes, results

    def _decide(self, operation: Operation | SetAcl, session: int) -> tuple[Change | None, OperationResult]:
        path = operation.path
        if isinstance(operation, Create):
            return self._decide_create(operation, session)
        znode = self._existing(path)
        if isinstance(operation, Check):
            _permit(znode, READ, path)
            _match(znode.version, operation.version, path)
            return None, None
        if isinstance(operation, SetData):
            _permit(znode, WRITE, path)
            _match(znode.version, operation.version, path)
            return ChangedZnode(path, operation.data), None
        if isinstance(operation, SetAcl):
            _permit(znode, ADMIN, path)
            _match(znode.aversion, operation.version, path)
            return ChangedAcl(path, tuple(operation.acl)), None
        _permit(self._existing(parent_of(path)), DELETE, path)
        _match(znode.version, operation.version, path)
        if znode.children:
            raise ZooKeeperError(ZooKeeperCode.NOT_EMPTY, path)
        return DeletedZnode(path), None

    def _decide_create(self, operation: Create, session: int) -> tuple[Change, OperationResult]:
        path = operation.path
        parent = self.znodes.get(parent_of(path))
        if parent is None:
            raise ZooKeeperError(ZooKeeperCode.NO_NODE, path)
        _permit(parent, CREATE, path)
        created = f"{path}{parent.creations:010}" if operation.sequential else path
        if created in self.znodes:
            raise ZooKeeperError(ZooKeeperCode.NODE_EXISTS, path)
        if parent.owner:
            raise ZooKeeperError(ZooKeeperCode.NO_CHILDREN_FOR_EPHEMERALS, path)
        owner = session if operation.ephemeral else 0
        return CreatedZnode(created, operation.data, tuple(operation.acl), owner), Created(created)

    def _existing(self, path: str) -> Znode:
        znode = self.znodes.get(path)
        if znode is None:
            raise ZooKeeperError(ZooKeeperCode.NO_NODE, path)
        return znode

    # --------------------------------------------------------------------------------------- every server's

    def apply(self, change: Change, zxid: int, time_ms: int) -> None:
        znodes, path = self.znodes, change.path
        if isinstance(change, CreatedZnode):
            znodes[path] = Znode(change.data, change.acl, zxid, time_ms, change.owner)
            parent = znodes[parent_of(path)]
            parent.children.add(path.rpartition("/")[2])
            parent.creations += 1
            parent.pzxid = zxid
        elif isinstance(change, DeletedZnode):
            del znodes[path]
            parent = znodes[parent_of(path)]
            parent.children.discard(path.rpartition("/")[2])
            parent.pzxid = zxid
        elif isinstance(change, ChangedZnode):
            znode = znodes[path]
            znode.data, znode.mzxid, znode.mtime_ms = change.data, zxid, time_ms
            znode.version += 1
        else:
            znodes[path].acl = change.acl
            znodes[path].aversion += 1


def events_of(change: Change) -> Iterator[WatchEvent]:
    """What watches see of a change, in the order in which a server tells it."""
    if isinstance(change, ChangedZnode):
        yield WatchEvent(WatchKind.DATA_CHANGED, change.path)
    elif isinstance(change, CreatedZnode | DeletedZnode):
        kind = WatchKind.CREATED if isinstance(change, CreatedZnode) else WatchKind.DELETED
        yield WatchEvent(kind, change.path)
        yield WatchEvent(WatchKind.CHILDREN_CHANGED, parent_of(change.path))


def _permit(znode: Znode, permission: int, path: str) -> None:
    if not any(entry.permissions & permission and entry[1:] == EVERYBODY for entry in znode.acl):
        raise ZooKeeperError(ZooKeeperCode.NO_AUTH, path)


def _match(version: int, expected: int, path: str) -> None:
    if expected not in (ANY_VERSION, version):
        raise ZooKeeperError(ZooKeeperCode.BAD_VERSION, path)


class Watched:
    """The watches of a client that a server knows: each is called once."""

    def __init__(self) -> None:
        self.data: set[str] = set()
        self.children: set[str] = set()

    def add(self, request: Read) -> None:
        """A read has been answered, which may have set a watch."""
        if isinstance(request, Exists) and request.watch:
            self.data.add(request.path)
        elif isinstance(request, GetChildren) and request.watch:
            self.children.add(request.path)

    def take(self, event: WatchEvent) -> bool:
        """Whether the client is told of the event; its watches of it have been called then."""
        path, kind, is_seen = event.path, event.kind, False
        if kind is not WatchKind.CHILDREN_CHANGED and path in self.data:
            self.data.discard(path)
            is_seen = True
        if kind in (WatchKind.CHILDREN_CHANGED, WatchKind.DELETED) and path in self.children:
            self.children.discard(path)
            is_seen = True
        return is_seen

    def clear(self) -> None:
        self.data.clear()
        self.children.clear()


def _copied(znode: Znode) -> Znode:
    copied = Znode(znode.data, znode.acl, znode.czxid, znode.time_ms, znode.owner)
    copied.mzxid, copied.pzxid, copied.mtime_ms = znode.mzxid, znode.pzxid, znode.mtime_ms
    copied.version, copied.aversion, copied.creations = znode.version, znode.aversion, znode.creations
    copied.children = set(znode.children)
    return copied
