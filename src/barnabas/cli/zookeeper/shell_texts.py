"""What ZooKeeper's shell prints: stats, ACLs, events, errors."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cli.perf.java_dates import date_format
from barnabas.runtime.zookeeper.client import (
    Acl,
    SessionState,
    Stat,
    WatchEvent,
    WatchKind,
    ZooKeeperCode,
    ZooKeeperError,
)

_EVENT_TYPES = {
    WatchKind.CREATED: "NodeCreated",
    WatchKind.DELETED: "NodeDeleted",
    WatchKind.DATA_CHANGED: "NodeDataChanged",
    WatchKind.CHILDREN_CHANGED: "NodeChildrenChanged",
}
_STATES = {
    SessionState.CONNECTED: "SyncConnected",
    SessionState.CONNECTING: "Disconnected",
    SessionState.EXPIRED: "Expired",
    SessionState.AUTH_FAILED: "AuthFailed",
    SessionState.CLOSED: "Closed",
}
_FAILURES = {
    ZooKeeperCode.NO_NODE: "Node does not exist: {path}",
    ZooKeeperCode.NODE_EXISTS: "Node already exists: {path}",
    ZooKeeperCode.NOT_EMPTY: "Node not empty: {path}",
    ZooKeeperCode.NO_CHILDREN_FOR_EPHEMERALS: "Ephemerals cannot have children: {path}",
    ZooKeeperCode.BAD_VERSION: "version No is not valid : {path}",
    ZooKeeperCode.NO_AUTH: "Insufficient permission : {path}",
    ZooKeeperCode.INVALID_ACL: "Acl is not valid : {path}",
    ZooKeeperCode.CONNECTION_LOSS: "KeeperErrorCode = ConnectionLoss for {path}",
    ZooKeeperCode.SESSION_EXPIRED: "KeeperErrorCode = Session expired for {path}",
    ZooKeeperCode.BAD_ARGUMENTS: "the request for {path} is longer than a server accepts",
}
# In the order in which they are printed.
_PERMISSIONS = ((4, "c"), (8, "d"), (1, "r"), (2, "w"), (16, "a"))
_LONG_MASK = (1 << 64) - 1
# As Java prints a date.
_time = date_format("EEE MMM dd HH:mm:ss zzz yyyy", "")


def failure_text(error: ZooKeeperError) -> str:
    text = _FAILURES.get(error.code)
    return f"{error}" if text is None else text.format(path=error.path)


def event_text(event: WatchEvent) -> str:
    return (
        f"\nWATCHER::\n\nWatchedEvent state:SyncConnected type:{_EVENT_TYPES[event.kind]} path:{event.path}"
    )


def state_text(state: SessionState) -> str:
    return f"\nWATCHER::\n\nWatchedEvent state:{_STATES[state]} type:None path:null"


def data_text(data: bytes | None) -> str:
    return "null" if data is None else data.decode("utf-8", "replace")


def stat_text(stat: Stat) -> str:
    return "\n".join(
        (
            f"cZxid = {_hex(stat.czxid)}",
            f"ctime = {_time(stat.ctime_ms)}",
            f"mZxid = {_hex(stat.mzxid)}",
            f"mtime = {_time(stat.mtime_ms)}",
            f"pZxid = {_hex(stat.pzxid)}",
            f"cversion = {stat.cversion}",
            f"dataVersion = {stat.version}",
            f"aclVersion = {stat.aversion}",
            f"ephemeralOwner = {_hex(stat.ephemeral_owner)}",
            f"dataLength = {stat.data_length}",
            f"numChildren = {stat.children_count}",
        )
    )


def acl_text(acl: Sequence[Acl]) -> str:
    return "\n".join(
        f"'{entry.scheme},'{entry.id}\n: "
        + "".join(letter for bit, letter in _PERMISSIONS if entry.permissions & bit)
        for entry in acl
    )


def parse_acl(text: str) -> list[Acl]:
    """`scheme:id:cdrwa`, several with commas; ValueError says what is wrong."""
    bits = {letter: bit for bit, letter in _PERMISSIONS}
    entries = []
    for part in text.split(","):
        scheme, first, rest = part.partition(":")
        identity, second, letters = rest.rpartition(":")
        if not first or not second:
            raise ValueError(f"{part} does not have the form scheme:id:perm")
        unknown = [letter for letter in letters if letter not in bits]
        if unknown:
            raise ValueError(f"Unknown perm type: {unknown[0]}")
        entries.append(Acl(sum(bits[letter] for letter in set(letters)), scheme, identity))
    return entries


def _hex(number: int) -> str:
    return hex(number & _LONG_MASK)
