"""Which servers run on this machine: each keeps a file in the state folder, and a lock on it while it lives.

What lives here: that file, for `server-start`, `server-stop` and `status`.  What may not: sockets, and what a
server does.

A process id alone proves nothing, as numbers are used again; the lock goes with the process, however it
ends.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field

from barnabas.runtime.disk.disk import Disk, Lock

_INFO, _LOCK = ".pid", ".lock"
STATE_VARIABLE = "BARNABAS_STATE"
LOG_VARIABLE = "LOG_DIR"  # Of Apache Kafka's own scripts.


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server says of itself.  Listeners: name to host:port as clients reach it."""

    pid: int
    node_id: int
    roles: list[str]
    cluster_id: str
    started_ms: int
    listeners: dict[str, str]
    config: str | None = None
    log: str | None = None
    metrics: str | None = None
    log_dirs: list[str] = field(default_factory=list)


def state_folder() -> str:
    """Where a user's servers leave their files: $BARNABAS_STATE, or the place that XDG gives."""
    given = os.environ.get(STATE_VARIABLE)
    if given:
        return given
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(home, "barnabas")


def log_folder() -> str:
    return os.environ.get(LOG_VARIABLE) or os.path.join(state_folder(), "logs")


def no_place(error: OSError, folder: str, variable: str) -> str:
    """Why a folder of ours cannot be used, and which variable names another."""
    return f"{folder}: {error.strerror or error}; set {variable} to a folder that this user may write"


class Registration:
    """This process among the running servers."""

    def __init__(self, disk: Disk, info: ServerInfo) -> None:
        folder = os.path.join(state_folder(), "run")
        disk.make_folder(folder)
        self._disk = disk
        self._path = os.path.join(folder, f"node-{info.node_id}-{info.pid}")
        self._lock: Lock = disk.lock(self._path + _LOCK)
        disk.write_atomically(self._path + _INFO, json.dumps(asdict(info)).encode(), sync=False)

    def end(self) -> None:
        self._disk.remove(self._path + _INFO)
        self._lock.release()
        self._disk.remove(self._path + _LOCK)


def running_servers(disk: Disk) -> list[ServerInfo]:
    """All that live, by node id; files of those that ended without a word are swept away."""
    folder = os.path.join(state_folder(), "run")
    if not disk.is_folder(folder):
        return []
    found = []
    for name in disk.names(folder):
        if not name.endswith(_INFO):
            continue
        path = os.path.join(folder, name)
        if not is_alive(disk, path.removesuffix(_INFO)):
            disk.remove(path)
            continue
        try:
            found.append(ServerInfo(**json.loads(disk.read_bytes(path))))
        except (OSError, ValueError, TypeError):
            # It ended between two looks, or another release wrote it.
            continue
    return sorted(found, key=lambda info: (info.node_id, info.pid))


def is_running(disk: Disk, info: ServerInfo) -> bool:
    return is_alive(disk, os.path.join(state_folder(), "run", f"node-{info.node_id}-{info.pid}"))


def is_alive(disk: Disk, path: str) -> bool:
    """Whether somebody holds the lock."""
    if not disk.exists(path + _LOCK):
        return False
    try:
        lock = disk.lock(path + _LOCK)
    except BlockingIOError:
        return True
    lock.release()
    disk.remove(path + _LOCK)
    return False
