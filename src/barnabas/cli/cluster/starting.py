"""Starts the nodes of a local cluster: one process each, forked from this one.

What a server imports is imported once, before the processes are forked, and so takes no more time for three
nodes than for one.  A node is a daemon in a session of its own, so that Ctrl+C in this terminal does not
reach it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from barnabas.base.units import NS_PER_MS
from barnabas.cli.cluster.layout import Layout, LocalNode
from barnabas.cli.cluster.processes import (
    RUNNING,
    NodeProcess,
    State,
    read_process,
    send_signal,
    wait_for_end,
    write_process,
)
from barnabas.cli.framework.exits import Exit
from barnabas.cli.server.node_file import read_properties
from barnabas.cli.server.running_servers import ServerInfo
from barnabas.cli.server.server_logs import logging_to
from barnabas.cli.server.server_process import STOP_ALONE, ServerProcess
from barnabas.config.node.node import read_node
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk.folder_disk import FolderDisk

# How long an interrupted start waits for the nodes that it stops again.
INTERRUPTED_MS = 5_000
_READY = b"ready"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a node: `reason` says why it has failed; empty and not ready: it still starts."""

    is_ready: bool
    reason: str = ""


def start_nodes(layout: Layout, nodes: Sequence[LocalNode], timeout_ms: int) -> dict[int, Outcome]:
    """Starts the nodes together; returns when all are ready or have failed, or when the time is over."""
    pipes: dict[int, LocalNode] = {}
    disk = FolderDisk()
    try:
        for node in nodes:
            pipes[_fork(layout, node)] = node
        return _wait(pipes, timeout_ms)
    except BaseException:
        # Interrupted: nothing that this command has started stays behind.
        processes = [read_process(disk, layout.node_folder(node)) for node in nodes]
        running = [process for process in processes if process is not None and process.state in RUNNING]
        _end(running)
        raise
    finally:
        for read_fd in pipes:
            os.close(read_fd)


def _end(processes: Sequence[NodeProcess]) -> None:
    for process in processes:
        send_signal(process, signal.SIGTERM)
    for process in wait_for_end(processes, INTERRUPTED_MS):
        send_signal(process, signal.SIGKILL)


def _wait(pipes: dict[int, LocalNode], timeout_ms: int) -> dict[int, Outcome]:
    clock = SystemClock()
    deadline_ns = clock.monotonic_ns() + timeout_ms * NS_PER_MS
    outcomes = {node.id: Outcome(is_ready=False) for node in pipes.values()}
    waiting = dict(pipes)
    while waiting:
        remaining_s = (deadline_ns - clock.monotonic_ns()) / 1e9
        if remaining_s <= 0:
            break
        for read_fd in select.select(list(waiting), (), (), remaining_s)[0]:
            message = os.read(read_fd, 1 << 16)
            node = waiting.pop(read_fd)
            if message == _READY:
                outcomes[node.id] = Outcome(is_ready=True)
            else:
                outcomes[node.id] = Outcome(False, message.decode() or "it ended while it started")
    return outcomes


def _fork(layout: Layout, node: LocalNode) -> int:
    """Returns the descriptor from which to read that the node is ready, or why not."""
    read_fd, write_fd = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with _blocked_signals():
        if os.fork() == 0:
            # A descriptor of the folder's lock would hold it for as long as the node runs.
            os.closerange(3, write_fd)
            os.closerange(write_fd + 1, os.sysconf("SC_OPEN_MAX"))
            _run(layout, node, write_fd)
    os.close(write_fd)
    return read_fd


@contextlib.contextmanager
def _blocked_signals() -> Iterator[None]:
    """A signal between the fork and the new session would end a node before it has written its file."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def _run(layout: Layout, node: LocalNode, ready_fd: int) -> NoReturn:
    """Runs in the child; never returns."""
    code = int(Exit.FAILED)
    disk, folder = FolderDisk(), layout.node_folder(node)
    try:
        os.setsid()
        _redirect(layout.log_file(node))
        write_process(disk, folder, State.STARTING)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        # It may arrive before the server handles it, or after.
        signal.signal(STOP_ALONE, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        code = _serve(layout, node, ready_fd)
        write_process(disk, folder, State.STOPPED)
    except BaseException as error:
        from barnabas.cli.main import explain

        line = explain(error)[0] if isinstance(error, Exception) else repr(error)
        with contextlib.suppress(OSError):
            write_process(disk, folder, State.FAILED, line.removeprefix("barnabas: "))
            print(line, file=sys.stderr, flush=True)
            os.write(ready_fd, line.removeprefix("barnabas: ").encode())
    finally:
        os._exit(int(code))


def _redirect(log_file: str) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for source, descriptor in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, descriptor)
    os.close(null)
    os.close(log)


def _serve(layout: Layout, node: LocalNode, ready_fd: int) -> int:
    disk, config = FolderDisk(), layout.properties_file(node)

    def on_listening(_: ServerInfo) -> None:
        write_process(disk, layout.node_folder(node), State.UP)
        with contextlib.suppress(OSError):  # The command may have been interrupted.
            os.write(ready_fd, _READY)
        os.close(ready_fd)

    log = layout.log_file(node)
    server = read_node(read_properties(disk, config))
    with logging_to(log, "text"):
        return ServerProcess(server, on_listening, config=config, log=log).run()
