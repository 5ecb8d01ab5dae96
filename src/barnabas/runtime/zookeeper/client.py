"""The ZooKeeper interface: znodes, transactions, watches and sessions.

Contains the interface and its values.  The client of a real ensemble is `kazoo_client`, the simulated twin
`runtime.simulated.ensemble`; nothing here knows what the znodes mean.

All calls are made, all promises settled and all watches called on the loop's thread.  The promises of one
client are settled in the order of its calls, as ZooKeeper answers them, and a watch is called before the
promise of any later read that sees the change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from barnabas.runtime.loop.promise import Promise

# The version that matches any: of `set_data`, `delete` and their operations in a transaction.
ANY_VERSION = -1


class ZooKeeperCode(Enum):
    """Why an operation failed, by ZooKeeper's own codes."""

    SYSTEM_ERROR = -1
    RUNTIME_INCONSISTENCY = -2
    DATA_INCONSISTENCY = -3
    CONNECTION_LOSS = -4
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    OPERATION_TIMEOUT = -7
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    NOT_READ_ONLY = -119
    REQUEST_TIMEOUT = -122
    QUOTA_EXCEEDED = -125
    THROTTLED = -127


class ZooKeeperError(Exception):
    """An operation failed.  After CONNECTION_LOSS it may have been carried out all the same."""

    def __init__(self, code: ZooKeeperCode, path: str = "") -> None:
        super().__init__(f"{code.name} for {path}" if path else code.name)
        self.code = code
        self.path = path


class ConnectionTimeout(ZooKeeperError):
    """`start` found no server that accepts a session in time."""

    def __init__(self, connect: str, timeout_ms: int) -> None:
        super().__init__(ZooKeeperCode.CONNECTION_LOSS)
        why = f"no server of ZooKeeper at {connect} has accepted a session within {timeout_ms} ms"
        self.args = (f"{why}: see that it runs and that this address is right",)


class SessionState(Enum):
    """The state of the client's session."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    # The ensemble has ended the session: its ephemeral znodes and its watches are gone.
    EXPIRED = "expired"
    AUTH_FAILED = "authentication failed"
    CLOSED = "closed"


class WatchKind(Enum):
    """What a watch saw."""

    CREATED = "created"
    DELETED = "deleted"
    DATA_CHANGED = "data changed"
    CHILDREN_CHANGED = "children changed"


class WatchEvent(NamedTuple):
    """A watch is called once.  Watches survive a lost connection, not a lost session."""

    kind: WatchKind
    path: str


Watch: TypeAlias = Callable[[WatchEvent], None]


class Acl(NamedTuple):
    """Who may do what with a znode: bits of read 1, write 2, create 4, delete 8, admin 16."""

    permissions: int
    scheme: str
    id: str


OPEN_ACL: tuple[Acl, ...] = (Acl(31, "world", "anyone"),)


@dataclass(frozen=True, slots=True)
class Stat:
    """What ZooKeeper says of a znode besides its data."""

    czxid: int
    mzxid: int
    version: int
    cversion: int = 0
    aversion: int = 0
    ephemeral_owner: int = 0
    ctime_ms: int = 0
    mtime_ms: int = 0
    data_length: int = 0
    children_count: int = 0
    pzxid: int = 0


class Znode(NamedTuple):
    """The data of a znode, which may be null, and its stat."""

    data: bytes | None
    stat: Stat


@dataclass(frozen=True, slots=True)
class Create:
    """Creates a znode; `sequential` appends a number of ten digits to its name."""

    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequential: bool = False
    acl: Sequence[Acl] = OPEN_ACL


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes | None
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Fails its transaction unless the znode has this version."""

    path: str
    version: int


Operation: TypeAlias = Create | SetData | Delete | Check


@dataclass(frozen=True, slots=True)
class Created:
    path: str
    stat: Stat | None = None


# What each operation of a transaction gives: the path, the new stat, or nothing.
OperationResult: TypeAlias = Created | Stat | None


class ZooKeeperClient(Protocol):
    """One session with an ensemble.  Paths begin with `/`; a chroot is added and removed by the client."""

    @property
    def state(self) -> SessionState: ...

    @property
    def session_id(self) -> int:
        """The id of the current session; 0 before the first connection."""
        ...

    @property
    def session_timeout_ms(self) -> int:
        """What the ensemble granted."""
        ...

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        """Call this listener with every new state of the session.

        After EXPIRED the client opens no new session by itself: the owner calls `start` again once it has
        dropped what the old one meant.
        """
        ...

    def start(self) -> Promise[None]:
        """Connects, in a new session; fails if that takes longer than the connection timeout."""
        ...

    def get(self, path: str, watch: Watch | None = None) -> Promise[Znode | None]:
        """The znode, or None if there is none; the watch is set in both cases."""
        ...

    def children(self, path: str, watch: Watch | None = None) -> Promise[list[str] | None]:
        """The sorted names of the children; None, and no watch, if the znode does not exist."""
        ...

    def get_many(self, paths: Sequence[str]) -> Promise[list[Znode | None]]:
        """Many znodes, read in pipelined requests of bounded number."""
        ...

    def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        acl: Sequence[Acl] = OPEN_ACL,
        make_parents: bool = False,
    ) -> Promise[Created]:
        """Creates a znode; NODE_EXISTS if it is there.

        ZooKeeper's plain create, which tells the path but not the stat.  `make_parents`, as Kafka does: if a
        parent is missing, the parents are created (without data) and then it is tried again, so that only the
        first attempt is in the order of calls.
        """
        ...

    def set_data(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Promise[Stat]: ...

    def delete(self, path: str, version: int = ANY_VERSION) -> Promise[None]: ...

    def transact(self, operations: Sequence[Operation]) -> Promise[list[OperationResult]]:
        """A multi: all of it or nothing.

        It fails with the code of the first operation that cannot be carried out, and that operation's path.
        """
        ...

    def get_acl(self, path: str) -> Promise[list[Acl]]: ...

    def set_acl(self, path: str, acl: Sequence[Acl], version: int = ANY_VERSION) -> Promise[Stat]: ...

    def sync(self, path: str) -> Promise[None]:
        """Later reads see all that was committed before this call."""
        ...

    def close(self) -> Promise[None]:
        """Ends the session, which removes its ephemeral znodes."""
        ...
