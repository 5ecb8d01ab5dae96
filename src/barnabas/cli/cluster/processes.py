"""The process of a node: what it writes about itself, whether it runs, and signals to it.

A process id alone proves nothing, because ids are reused: the file also has the time at which the process
started.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from barnabas.base.units import NS_PER_MS
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.loop.reactor import Reactor

PROCESS_FILE = "process.json"
POLL_MS = 10
# After the command name in /proc/PID/stat: the state is the first field, the start time the 20th.
_STATE, _START_TIME = 0, 19
_ENDED = ("Z", "X")


class State(StrEnum):
    """The state of a node; it writes all of them itself except KILLED, which is what remains without it."""

    NEW = "never started"
    STARTING = "starting"
    UP = "up"
    STOPPED = "stopped"
    FAILED = "failed"
    KILLED = "killed"


RUNNING = (State.STARTING, State.UP)


@dataclass(frozen=True, slots=True)
class NodeProcess:
    """The last process of a node, as its file has it.  `reason`: why it failed."""

    pid: int
    started: str
    state: State
    reason: str = ""


def start_time(pid: int) -> str | None:
    """When the process started, as the system writes it; None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except FileNotFoundError:
        return None if os.path.isdir("/proc/self") else _start_time_of_ps(pid)
    except ProcessLookupError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[_STATE] in _ENDED else fields[_START_TIME]


def _start_time_of_ps(pid: int) -> str | None:
    """For systems without /proc."""
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    line = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return None if not line or line.startswith(_ENDED) else line.partition(" ")[2].strip()


def write_process(disk: Disk, folder: str, state: State, reason: str = "") -> None:
    """Called by the node's own process."""
    pid = os.getpid()
    process = NodeProcess(pid, start_time(pid) or "", state, reason)
    path = os.path.join(folder, PROCESS_FILE)
    disk.write_atomically(path, json.dumps(asdict(process)).encode(), sync=False)


def read_process(disk: Disk, folder: str) -> NodeProcess | None:
    """The last process of a node and its state now; None if it was never started."""
    path = os.path.join(folder, PROCESS_FILE)
    if not disk.exists(path):
        return None
    fields = json.loads(disk.read_bytes(path))
    state = State(fields["state"])
    if state in RUNNING and start_time(fields["pid"]) != fields["started"]:
        state = State.KILLED
    return NodeProcess(fields["pid"], fields["started"], state, fields["reason"])


def is_running(process: NodeProcess) -> bool:
    return start_time(process.pid) == process.started


def send_signal(process: NodeProcess, number: signal.Signals) -> None:
    if is_running(process):
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return  # It has ended meanwhile.
        except PermissionError as error:
            raise CommandError(
                f"barnabas: process {process.pid} belongs to another user", Exit.DENIED
            ) from error


def wait_for_end(
    processes: Sequence[NodeProcess],
    timeout_ms: int,
    while_waiting: Callable[[], None] | None = None,
) -> list[NodeProcess]:
    """Waits until the processes have ended; returns those that have not."""
    reactor = Reactor()
    deadline_ns = reactor.clock.monotonic_ns() + timeout_ms * NS_PER_MS
    try:
        while running := [process for process in processes if is_running(process)]:
            if reactor.clock.monotonic_ns() > deadline_ns:
                return running
            if while_waiting is not None:
                while_waiting()
            reactor.serve(POLL_MS * NS_PER_MS)
        return []
    finally:
        reactor.close()
