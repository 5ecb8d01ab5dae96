"""`barnabas zookeeper-shell`: look at znodes and change them, with the commands of ZooKeeper's own shell.

A command on the command line is run alone; otherwise commands are read from the standard input.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.numbers import whole_number
from barnabas.cli.zookeeper.shell_commands import COMMANDS, Shell
from barnabas.cli.zookeeper.shell_texts import state_text
from barnabas.runtime.zookeeper.blocking import BlockingZooKeeper
from barnabas.runtime.zookeeper.client import ConnectionTimeout, SessionState

PROGRAM = "barnabas zookeeper-shell"
TIMEOUT_MS = 30_000


def run(arguments: Sequence[str]) -> int:
    own, command = _split(arguments)
    parser = KafkaParser(
        PROGRAM,
        "Look at znodes and change them.",
        f"Commands: {', '.join(COMMANDS)}; interactive without one.",
    )
    add = parser.add_argument
    add("server", metavar="HOST:PORT[,...][/PATH]", help="servers of ZooKeeper, and a path taken as the root")
    add(
        "--timeout",
        type=whole_number(1),
        default=TIMEOUT_MS,
        metavar="MS",
        help=f"how long to try to connect (default {TIMEOUT_MS})",
    )
    options = parser.parse(own)
    print(f"Connecting to {options.server}", flush=True)
    connections = _Connections(options.server, options.timeout, tells_end=not command)
    if not command:
        print("Welcome to ZooKeeper!", flush=True)
    shell = Shell(connections.open)
    try:
        return shell.run(command) if command else _run_lines(shell)
    finally:
        shell.close()


class _Connections:
    """Opens connections, and prints what becomes of them as ZooKeeper's shell does."""

    def __init__(self, address: str, timeout_ms: int, *, tells_end: bool) -> None:
        self._address = address
        self._timeout_ms = timeout_ms
        self._tells_end = tells_end
        self._was_connected = False

    def open(self, address: str | None) -> BlockingZooKeeper:
        self._address = address if address is not None else self._address
        self._was_connected = False
        try:
            return BlockingZooKeeper(self._address, self._timeout_ms, self._state_changed)
        except ConnectionTimeout as error:
            raise CommandError(f"barnabas: {error}", Exit.UNREACHABLE) from error

    def _state_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._was_connected = True
        elif not self._was_connected or (state is SessionState.CLOSED and not self._tells_end):
            return
        print(state_text(state), flush=True)


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What follows the servers is a command, with flags of its own."""
    for number, argument in enumerate(arguments):
        is_value = number > 0 and arguments[number - 1].lstrip("-") == "timeout"
        if not argument.startswith("-") and not is_value:
            return list(arguments[: number + 1]), list(arguments[number + 1 :])
    return list(arguments), []


def _run_lines(shell: Shell) -> int:
    """Commands line by line, until `quit` or the end of the input; what fails ends nothing."""
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        import contextlib

        with contextlib.suppress(ImportError):
            __import__("readline")
    while not shell.has_ended:
        try:
            line = input("[zk] " if is_terminal else "")
        except EOFError:
            break
        except KeyboardInterrupt:
            print("^C")
            continue
        _run_line(shell, line)
    return Exit.OK


def _run_line(shell: Shell, line: str) -> None:
    try:
        words = shlex.split(line)
    except ValueError as error:
        print(f"{error}", file=sys.stderr)
        return
    if not words:
        return
    shell.remember(line.strip())
    if words[0] == "redo":
        line = shell.line_of(words[1:])
        words = shlex.split(line)
    try:
        if words:
            shell.run(words)
    except CommandError as error:
        # `connect` to an address where nobody is.
        print(f"{error}", file=sys.stderr)
    sys.stdout.flush()
