"""The commands of ZooKeeper's shell: their flags, what they do, and what they print.

As there, data goes to stdout, and confirmations and errors to stderr.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from barnabas import __version__
from barnabas.cli.framework.exits import Exit
from barnabas.cli.zookeeper.shell_texts import (
    acl_text,
    data_text,
    event_text,
    failure_text,
    parse_acl,
    stat_text,
)
from barnabas.runtime.zookeeper.blocking import BlockingZooKeeper
from barnabas.runtime.zookeeper.client import (
    ANY_VERSION,
    OPEN_ACL,
    Acl,
    Watch,
    WatchEvent,
    Znode,
    ZooKeeperCode,
    ZooKeeperError,
)

HISTORY_MAX = 1000
HISTORY_SHOWN = 11
# Java's shell ends with this code for a command that it does not know.
COMMAND_NOT_FOUND = 127


@dataclass(frozen=True, slots=True)
class Command:
    """Its usage as ZooKeeper prints it, flags without and with a value, how many arguments it takes."""

    usage: str
    run: Callable[[Shell, Given], None]
    flags: str = ""
    valued: str = ""
    least: int = 1
    most: int = 1


@dataclass(slots=True)
class Given:
    """What was given to a command."""

    arguments: list[str] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)
    values: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return self.arguments[0]

    @property
    def version(self) -> int:
        return int(self.values.get("v", ANY_VERSION))


class UsageShown(Exception):
    """The command was given wrong arguments: what to print."""


class Shell:
    """Runs commands on one connection, which `connect` opens."""

    def __init__(self, connect: Callable[[str | None], BlockingZooKeeper]) -> None:
        self._connect = connect
        self.zookeeper: BlockingZooKeeper | None = connect(None)
        self.has_ended = False
        self.prints_watches = True
        # Numbered from 0; only the last ones are kept.
        self._history: deque[tuple[int, str]] = deque(maxlen=HISTORY_MAX)
        self._lines = 0

    def remember(self, line: str) -> None:
        self._history.append((self._lines, line))
        self._lines += 1

    def last_lines(self) -> list[tuple[int, str]]:
        return list(self._history)[-HISTORY_SHOWN:]

    def line_of(self, arguments: Sequence[str]) -> str:
        """The earlier line with this number, for `redo`; otherwise an empty one."""
        found = [line for number, line in self._history if [str(number)] == list(arguments)]
        if not found or found[0].startswith("redo"):
            print("Command index out of range", file=sys.stderr)
            return ""
        return found[0]

    def run(self, words: Sequence[str]) -> int:
        """Runs one command; its exit code is that of the shell in which it is the only one."""
        name = words[0]
        command = COMMANDS.get(name)
        if command is None:
            print(help_text(), file=sys.stderr)
            if name != "help":
                print(f"Command not found: Command not found {name}", file=sys.stderr)
            return Exit.OK if name == "help" else COMMAND_NOT_FOUND
        try:
            given = parse(command, words[1:])
            if self.zookeeper is None and name not in ("connect", "quit", "history"):
                raise UsageShown("Not connected")
            command.run(self, given)
        except UsageShown as shown:
            print(f"{shown}", file=sys.stderr)
            return Exit.FAILED
        except ZooKeeperError as error:
            print(failure_text(error), file=sys.stderr)
            return Exit.FAILED
        return Exit.OK

    @property
    def open(self) -> BlockingZooKeeper:
        assert self.zookeeper is not None
        return self.zookeeper

    def connect(self, address: str | None) -> None:
        self.close()
        self.zookeeper = self._connect(address)

    def close(self) -> None:
        zookeeper, self.zookeeper = self.zookeeper, None
        if zookeeper is not None:
            zookeeper.close()

    def watch(self, given: Given) -> Watch | None:
        return self._event if "w" in given.flags else None

    def _event(self, event: WatchEvent) -> None:
        if self.prints_watches:
            print(event_text(event), flush=True)

    def existing(self, path: str) -> Znode:
        znode = self.open.run(partial(self.open.client.get, path))
        if znode is None:
            raise ZooKeeperError(ZooKeeperCode.NO_NODE, path)
        return znode

    def descendants(self, path: str) -> list[str]:
        """The paths below this one and itself, each before its children."""
        names = self.open.run(partial(self.open.client.children, path))
        if names is None:
            raise ZooKeeperError(ZooKeeperCode.NO_NODE, path)
        paths = [path]
        for name in names:
            paths += self.descendants(f"{path.rstrip('/')}/{name}")
        return paths


def parse(command: Command, words: Sequence[str]) -> Given:
    given = Given()
    waiting = ""
    for word in words:
        if waiting:
            given.values[waiting], waiting = word, ""
        elif word.startswith("-") and len(word) > 1 and not given.arguments:
            flag = word[1:]
            if flag in command.valued:
                waiting = flag
            elif flag in command.flags:
                given.flags.add(flag)
            else:
                raise UsageShown(f"Unrecognized option: {word}; {command.usage}")
        else:
            given.arguments.append(word)
    if waiting or not command.least <= len(given.arguments) <= command.most:
        raise UsageShown(command.usage)
    if "v" in given.values and not given.values["v"].lstrip("-").isdecimal():
        raise UsageShown(command.usage)
    if given.arguments and "path" in command.usage:
        check_path(given.path)
    return given


def check_path(path: str) -> None:
    if not path.startswith("/"):
        raise UsageShown("Path must start with / character")
    if path != "/" and path.endswith("/"):
        raise UsageShown("Path must not end with / character")
    if "//" in path:
        raise UsageShown("empty node name specified")


# Commands ---------------------------------------------------------------------------------------------------


def _ls(shell: Shell, given: Given) -> None:
    if "R" in given.flags:
        print("\n".join(shell.descendants(given.path)))
        return
    children = shell.open.run(partial(shell.open.client.children, given.path, shell.watch(given)))
    if children is None:
        raise ZooKeeperError(ZooKeeperCode.NO_NODE, given.path)
    print(f"[{', '.join(children)}]")
    if "s" in given.flags:
        print(stat_text(shell.existing(given.path).stat))


def _tree(shell: Shell, given: Given) -> None:
    top = given.path if given.arguments else "/"
    check_path(top)
    depth = top.rstrip("/").count("/")
    for path in shell.descendants(top):
        znode = shell.open.run(partial(shell.open.client.get, path))
        if znode is not None:
            name = path if path == top else path.rpartition("/")[2]
            indent = "  " * (path.count("/") - depth if path != top else 0)
            mark = " (ephemeral)" if znode.stat.ephemeral_owner else ""
            print(f"{indent}{name}{mark}" + (f"  {data_text(znode.data)}" if znode.data else ""))


def _get(shell: Shell, given: Given) -> None:
    znode = shell.open.run(partial(shell.open.client.get, given.path, shell.watch(given)))
    if znode is None:
        raise ZooKeeperError(ZooKeeperCode.NO_NODE, given.path)
    print(data_text(znode.data))
    if "s" in given.flags:
        print(stat_text(znode.stat))


def _stat(shell: Shell, given: Given) -> None:
    znode = shell.open.run(partial(shell.open.client.get, given.path, shell.watch(given)))
    if znode is None:
        raise ZooKeeperError(ZooKeeperCode.NO_NODE, given.path)
    print(stat_text(znode.stat))


def _create(shell: Shell, given: Given) -> None:
    data = given.arguments[1].encode() if len(given.arguments) > 1 else None
    acl: Sequence[Acl] = _acl(given.arguments[2]) if len(given.arguments) > 2 else OPEN_ACL
    created = shell.open.run(
        partial(
            shell.open.client.create,
            given.path,
            data,
            ephemeral="e" in given.flags,
            sequential="s" in given.flags,
            acl=acl,
        )
    )
    print(f"Created {created.path}", file=sys.stderr)


def _set(shell: Shell, given: Given) -> None:
    data = given.arguments[1].encode()
    stat = shell.open.run(partial(shell.open.client.set_data, given.path, data, given.version))
    if "s" in given.flags:
        print(stat_text(stat))


def _delete(shell: Shell, given: Given) -> None:
    shell.open.run(partial(shell.open.client.delete, given.path, given.version))


def _deleteall(shell: Shell, given: Given) -> None:
    for path in reversed(shell.descendants(given.path)):
        shell.open.run(partial(shell.open.client.delete, path))


def _get_acl(shell: Shell, given: Given) -> None:
    acl = shell.open.run(partial(shell.open.client.get_acl, given.path))
    print(acl_text(acl))
    if "s" in given.flags:
        print(stat_text(shell.existing(given.path).stat))


def _set_acl(shell: Shell, given: Given) -> None:
    acl = _acl(given.arguments[1])
    paths = shell.descendants(given.path) if "R" in given.flags else [given.path]
    for path in paths:
        stat = shell.open.run(partial(shell.open.client.set_acl, path, acl, given.version))
        if "s" in given.flags:
            print(stat_text(stat))


def _acl(text: str) -> Sequence[Acl]:
    try:
        return parse_acl(text)
    except ValueError as error:
        raise UsageShown(f"{error}\nAcl is not valid : null") from error


def _get_all_children_number(shell: Shell, given: Given) -> None:
    print(len(shell.descendants(given.path)) - 1)


def _get_ephemerals(shell: Shell, given: Given) -> None:
    top = given.path if given.arguments else "/"
    check_path(top)
    znodes = [(path, shell.open.run(partial(shell.open.client.get, path))) for path in shell.descendants(top)]
    session = shell.open.client.session_id
    own = [path for path, znode in znodes if znode is not None and znode.stat.ephemeral_owner == session]
    print(f"[{', '.join(own)}]")


def _sync(shell: Shell, given: Given) -> None:
    shell.open.run(partial(shell.open.client.sync, given.path))
    print("Sync is OK")


def _printwatches(shell: Shell, given: Given) -> None:
    if given.arguments:
        shell.prints_watches = given.arguments[0] == "on"
    else:
        print(f"printwatches is {'on' if shell.prints_watches else 'off'}")


def _history(shell: Shell, given: Given) -> None:
    for number, line in shell.last_lines():
        print(f"{number} - {line}")


def _version(shell: Shell, given: Given) -> None:
    print(f"barnabas {__version__}")


def _connect(shell: Shell, given: Given) -> None:
    shell.connect(given.arguments[0] if given.arguments else None)


def _close(shell: Shell, given: Given) -> None:
    shell.close()


def _quit(shell: Shell, given: Given) -> None:
    shell.has_ended = True


COMMANDS = {
    "close": Command("close ", _close, most=0, least=0),
    "connect": Command("connect host:port", _connect, least=0),
    "create": Command("create [-s] [-e] path [data] [acl]", _create, flags="se", most=3),
    "delete": Command("delete [-v version] path", _delete, valued="v"),
    "deleteall": Command("deleteall path", _deleteall),
    "get": Command("get [-s] [-w] path", _get, flags="sw"),
    "getAcl": Command("getAcl [-s] path", _get_acl, flags="s"),
    "getAllChildrenNumber": Command("getAllChildrenNumber path", _get_all_children_number),
    "getEphemerals": Command("getEphemerals [path]", _get_ephemerals, least=0),
    "history": Command("history ", _history, least=0, most=0),
    "ls": Command("ls [-s] [-w] [-R] path", _ls, flags="swR"),
    "printwatches": Command("printwatches on|off", _printwatches, least=0),
    "quit": Command("quit ", _quit, least=0, most=0),
    "set": Command("set [-s] [-v version] path data", _set, flags="s", valued="v", least=2, most=2),
    "setAcl": Command("setAcl [-s] [-v version] [-R] path acl", _set_acl, "sR", "v", least=2, most=2),
    "stat": Command("stat [-w] path", _stat, flags="w"),
    "sync": Command("sync path", _sync),
    "tree": Command("tree [path]", _tree, least=0),
    "version": Command("version ", _version, least=0, most=0),
}


def help_text() -> str:
    lines = [f"\t{command.usage}" for command in COMMANDS.values()]
    return "\n".join(["zookeeper-shell host:port cmd args", *lines])
