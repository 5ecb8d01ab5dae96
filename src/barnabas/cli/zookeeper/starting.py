"""Starts a ZooKeeper server: in place of this process, or as a daemon that this process waits for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import NoReturn

from barnabas.base.units import NS_PER_MS
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.server.running_servers import LOG_VARIABLE, log_folder, unusable_folder
from barnabas.cli.zookeeper.java_server import command_line
from barnabas.cli.zookeeper.running import RunningZooKeeper, register, running_zookeepers
from barnabas.cli.zookeeper.zoo_cfg import ZooCfg
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.loop.reactor import Reactor
from barnabas.runtime.network.free_port import accepts_connections, is_port_free
from barnabas.runtime.zookeeper.four_letter_words import server_state

# How long a server may take until it listens, on a machine that is busy.
START_TIMEOUT_MS = 60_000
POLL_MS = 20
_REASONS = ("Exception", "ERROR", "Error")
_LOG_END_BYTES = 64 * 1024


def run_in_place(disk: Disk, config: ZooCfg) -> NoReturn:
    """Java takes the place of this process: signals and the terminal are its own."""
    command = prepare(disk, config)
    register(disk, config, os.getpid())
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], command)


def start_daemon(
    disk: Disk, config: ZooCfg, log: str | None = None, heap: str | None = None
) -> RunningZooKeeper:
    """Starts it in the background; returns when it listens, or says why not."""
    command = prepare(disk, config, heap)
    log = log if log is not None else _log_file(disk, config)
    began = disk.size(log) if disk.exists(log) else 0
    with open(log, "ab") as output:  # noqa: PTH123
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    info = register(disk, config, process.pid, log)
    _wait(config, process, log, began)
    # It outlives this process: nobody waits for its end.
    process.returncode = 0
    disk.write_atomically(config.pid_file, f"{process.pid}\n".encode(), sync=False)
    return info


def prepare(disk: Disk, config: ZooCfg, heap: str | None = None) -> list[str]:
    """The command; CommandError if this server runs, its port is taken, or Java is missing."""
    command = command_line(config.path, heap=heap)
    running = running_zookeepers(disk, config.data_dir)
    if running:
        raise CommandError(
            f"barnabas: ZooKeeper with the data in {config.data_dir} runs already (pid {running[0].pid})"
        )
    host = "" if config.client_host == "localhost" else config.client_host
    if not is_port_free(host, config.client_port):
        raise CommandError(
            f"barnabas: port {config.client_port} is taken by another program: stop that, or set another "
            f"clientPort in {config.path}"
        )
    try:
        disk.make_folder(config.data_dir)
    except OSError as error:
        raise CommandError(
            f"barnabas: {config.data_dir}: {error.strerror}; set dataDir in {config.path} to a folder that "
            "this user may write",
            Exit.DENIED,
        ) from error
    return command


def _log_file(disk: Disk, config: ZooCfg) -> str:
    folder = log_folder()
    try:
        disk.make_folder(folder)
    except OSError as error:
        raise CommandError(f"barnabas: {unusable_folder(error, folder, LOG_VARIABLE)}") from error
    return os.path.join(folder, f"zookeeper-{config.client_port}.log")


def _wait(config: ZooCfg, process: subprocess.Popen[bytes], log: str, began: int) -> None:
    """Until it serves or, as one of several, accepts connections: those serve once a majority runs."""
    reactor = Reactor()
    deadline_ns = reactor.clock.monotonic_ns() + START_TIMEOUT_MS * NS_PER_MS
    try:
        while not _is_ready(config):
            if process.poll() is not None:
                why = _reason(log, began)
                raise CommandError(f"barnabas: ZooKeeper ended before it listened{why}; see its log ({log})")
            if reactor.clock.monotonic_ns() > deadline_ns:
                process.send_signal(signal.SIGTERM)
                raise CommandError(
                    f"barnabas: ZooKeeper does not listen within {START_TIMEOUT_MS // 1000} s; see its log "
                    f"({log})",
                    Exit.TIMED_OUT,
                )
            reactor.serve(POLL_MS * NS_PER_MS)
    finally:
        reactor.close()


def _is_ready(config: ZooCfg) -> bool:
    if config.servers:
        return accepts_connections(config.client_host, config.client_port)
    return server_state(config.client_host, config.client_port) is not None


def _reason(log: str, began: int) -> str:
    """The last line of the log that names an error."""
    with open(log, "rb") as file:  # noqa: PTH123
        file.seek(began)
        lines = file.read()[-_LOG_END_BYTES:].decode("utf-8", "replace").splitlines()
    found = [line.strip() for line in lines if any(word in line for word in _REASONS) and "\tat " not in line]
    return f": {found[-1]}" if found else ""
