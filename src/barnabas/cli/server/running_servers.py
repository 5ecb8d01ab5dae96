"""The servers that run on this machine: each has a file in the state folder, and holds a lock on it.

A process id alone proves nothing, because ids are reused; the lock is released when the process ends, in
whatever way.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field

from barnabas.runtime.disk.disk import Disk, Lock

_INFO, _LOCK = ".pid", ".lock"
STATE_VARIABLE = "BARNABAS_STATE"
LOG_VARIABLE = "LOG_DIR"  # As in Apache Kafka's scripts.


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A running server.  Listeners: name to advertised host:port."""

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
    # Started by `barnabas dev`, on a terminal: server-stop leaves it alone.
    is_dev: bool = False


def state_folder() -> str:
    """The folder for the files of a user's servers: $BARNABAS_STATE, or the one that XDG defines."""
    given = os.environ.get(STATE_VARIABLE)
    if given:
        return given
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(home, "barnabas")


def log_folder() -> str:
    return os.environ.get(LOG_VARIABLE) or os.path.join(state_folder(), "logs")


def unusable_folder(error: OSError, folder: str, variable: str) -> str:
    """Why a folder cannot be used, and which variable sets another."""
    return f"{folder}: {error.strerror or error}; set {variable} to a folder that this user may write"


class Registration:
    """Registers this process as a running server."""

    def __init__(self, disk: Disk, info: ServerInfo) -> None:
        folder = os.path.join(state_folder(), "run")
        disk.make_folder(folder)
        self._disk = disk
        self._path = os.path.join(folder, f"node-{info.node_id}-{info.pid}")
        self._lock: Lock = disk.lock(self._path + _LOCK)
        disk.write_atomically(self._path + _INFO, json.dumps(asdict(info)).encode(), sync=False)

    def remove(self) -> None:
        self._disk.remove(self._path + _INFO)
        self._lock.release()
        self._disk.remove(self._path + _LOCK)


def running_servers(disk: Disk) -> list[ServerInfo]:
    """All running servers, sorted by node id; files of crashed servers are removed."""
    folder = os.path.join(state_folder(), "run")
    if not disk.is_folder(folder):
        return []
    servers = []
    for name in disk.names(folder):
        if not name.endswith(_INFO):
            continue
        path = os.path.join(folder, name)
        if not is_alive(disk, path.removesuffix(_INFO)):
            disk.remove(path)
            continue
        try:
            servers.append(ServerInfo(**json.loads(disk.read_bytes(path))))
        except (OSError, ValueError, TypeError):
            # The server has just ended, or another release wrote the file.
            continue
    return sorted(servers, key=lambda info: (info.node_id, info.pid))


def is_running(disk: Disk, info: ServerInfo) -> bool:
    return is_alive(disk, os.path.join(state_folder(), "run", f"node-{info.node_id}-{info.pid}"))


def is_alive(disk: Disk, path: str) -> bool:
    """Whether a process holds the lock."""
    if not disk.exists(path + _LOCK):
        return False
    try:
        lock = disk.lock(path + _LOCK)
    except BlockingIOError:
        return True
    lock.release()
    disk.remove(path + _LOCK)
    return False
