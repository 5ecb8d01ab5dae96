"""The ZooKeeper servers that run on this machine: each has a file in the state folder.

A process id alone proves nothing, because ids are reused; the file also has the time at which the process
started.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from barnabas.cli.cluster.processes import (
    NodeProcess,
    State,
    is_running,
    send_signal,
    start_time,
    wait_for_end,
)
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.server.running_servers import state_folder
from barnabas.cli.zookeeper.zoo_cfg import ZooCfg
from barnabas.runtime.disk.disk import Disk

_PREFIX, _SUFFIX = "zookeeper-", ".json"


@dataclass(frozen=True, slots=True)
class RunningZooKeeper:
    """A server: its process, and where it was told to be."""

    pid: int
    started: str
    config: str
    data_dir: str
    client_port: int
    log: str = ""

    @property
    def process(self) -> NodeProcess:
        return NodeProcess(self.pid, self.started, State.UP)


def register(disk: Disk, config: ZooCfg, pid: int, log: str = "") -> RunningZooKeeper:
    """Remember a process as this server."""
    folder = _folder()
    disk.make_folder(folder)
    info = RunningZooKeeper(pid, start_time(pid) or "", config.path, config.data_dir, config.client_port, log)
    path = os.path.join(folder, f"{_PREFIX}{pid}{_SUFFIX}")
    disk.write_atomically(path, json.dumps(asdict(info)).encode(), sync=False)
    return info


def running_zookeepers(disk: Disk, data_dir: str | None = None) -> list[RunningZooKeeper]:
    """Those that run, or the one with this data; the files of others are removed."""
    folder = _folder()
    if not disk.is_folder(folder):
        return []
    found = []
    for name in disk.names(folder):
        if not (name.startswith(_PREFIX) and name.endswith(_SUFFIX)):
            continue
        path = os.path.join(folder, name)
        try:
            info = RunningZooKeeper(**json.loads(disk.read_bytes(path)))
        except (OSError, ValueError, TypeError):
            # Another release wrote the file, or it has just been removed.
            continue
        if not is_running(info.process):
            disk.remove(path)
        elif data_dir in (None, info.data_dir):
            found.append(info)
    return sorted(found, key=lambda info: (info.client_port, info.pid))


def stop(servers: Sequence[RunningZooKeeper], timeout_s: int) -> None:
    """Ends the servers and waits for them; CommandError names one that goes on."""
    for info in servers:
        send_signal(info.process, signal.SIGTERM)
    left = {process.pid for process in wait_for_end([info.process for info in servers], timeout_s * 1000)}
    for info in servers:
        if info.pid in left:
            raise CommandError(
                f"barnabas: ZooKeeper at port {info.client_port} (pid {info.pid}) has not stopped within "
                f"{timeout_s} s; see its log ({info.log or 'on its terminal'})",
                Exit.TIMED_OUT,
            )


def _folder() -> str:
    return os.path.join(state_folder(), "run")
