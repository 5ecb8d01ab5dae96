"""`barnabas server-stop`: stops servers on this machine, and waits for them."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from barnabas.base.units import NS_PER_MS
from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.numbers import integer, whole_number
from barnabas.cli.framework.text.terminal import tell
from barnabas.cli.server.running_servers import ServerInfo, is_running, running_servers
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.loop.reactor import Reactor

PROGRAM = "barnabas server-stop"
POLL_MS = 50


def run(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(PROGRAM, "Stop the servers of this user on this machine.")
    add = parser.add_argument
    add("--node-id", type=integer, metavar="N", help="only the server with this node id")
    add("--process-role", choices=("broker", "controller"), help="only servers with this role")
    add(
        "--timeout",
        type=whole_number(0),
        default=300,
        metavar="SECONDS",
        help="how long to wait (default 300)",
    )
    add(
        "--dev",
        action="store_true",
        help="stop brokers of `barnabas dev` too, which are left alone otherwise",
    )
    add("--dry-run", action="store_true", help="only show what would be stopped")
    options = parser.parse(arguments)
    disk = FolderDisk()
    matching = [
        info
        for info in running_servers(disk)
        if options.node_id in (None, info.node_id)
        and (options.process_role is None or options.process_role in info.roles)
    ]
    chosen = [info for info in matching if options.dev or not info.is_dev]
    if not chosen:
        spared = "; barnabas dev is left alone, stop it with Ctrl+C or --dev" if matching else ""
        raise CommandError(f"barnabas: no server to stop{spared}; see barnabas status", Exit.NOT_FOUND)
    for info in chosen:
        tell(_about(info))
    if options.dry_run:
        tell("nothing was done (--dry-run)")
        return Exit.OK
    for info in chosen:
        _send_signal(info)
    _wait(disk, chosen, options.timeout)
    return Exit.OK


def _about(info: ServerInfo) -> str:
    # In ZooKeeper mode nodes have no roles.
    roles = ",".join(info.roles) or "broker"
    addresses = ", ".join(info.listeners.values())
    return f"barnabas: stopping node {info.node_id} (pid {info.pid}, {roles}, {addresses})"


def _send_signal(info: ServerInfo) -> None:
    try:
        os.kill(info.pid, signal.SIGTERM)
    except ProcessLookupError:
        return  # It has already ended.
    except PermissionError as error:
        raise CommandError(
            f"barnabas: node {info.node_id} (pid {info.pid}) belongs to another user", Exit.DENIED
        ) from error


def _wait(disk: FolderDisk, chosen: list[ServerInfo], timeout_s: int) -> None:
    reactor = Reactor()
    deadline_ns = reactor.clock.monotonic_ns() + timeout_s * 1_000 * NS_PER_MS
    try:
        for info in chosen:
            while is_running(disk, info):
                if reactor.clock.monotonic_ns() > deadline_ns:
                    raise CommandError(
                        f"barnabas: node {info.node_id} (pid {info.pid}) has not stopped within "
                        f"{timeout_s} s; see its log ({info.log or 'on its terminal'})",
                        Exit.TIMED_OUT,
                    )
                reactor.serve(POLL_MS * NS_PER_MS)
            print(f"barnabas: node {info.node_id} (pid {info.pid}) has stopped")
    finally:
        reactor.close()
