"""What the friendly commands share: their parsers, where the cluster is, plans, and errors row by row."""

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit, UsageError, one_line
from barnabas.cli.framework.subcommands import Subcommand, Tool
from barnabas.cli.friendly.output import FORMATS

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from barnabas.base.errors import KafkaError
    from barnabas.client.sync import Admin

K = TypeVar("K")

BOOTSTRAP_VARIABLE = "BARNABAS_BOOTSTRAP"
DEFAULT_BOOTSTRAP = "localhost:9092"
# `-30m` or `-5` as the value of a flag is no flag itself.
_BACKWARDS = re.compile(r"-\d+[a-z]*(\d+[a-z]+)*")


class FriendlyParser(ArgumentParser):
    """Takes times such as `-30m` as values of flags."""

    def parse(self, arguments: Sequence[str]) -> Namespace:
        joined: list[str] = []
        for argument in arguments:
            before = joined[-1] if joined else ""
            if _BACKWARDS.fullmatch(argument) and self._takes_value(before):
                joined[-1] = f"{before}={argument}" if before.startswith("--") else before + argument
            else:
                joined.append(argument)
        return super().parse(joined)

    def _takes_value(self, flag: str) -> bool:
        action = self._option_string_actions.get(flag)
        return action is not None and action.nargs is None


def add_output(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", choices=FORMATS, default="table", help="how to print (default table)"
    )


def add_cluster(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT,...",
        help=f"brokers to connect to first (default ${BOOTSTRAP_VARIABLE}, else the broker that runs on this "
        f"machine, else {DEFAULT_BOOTSTRAP})",
    )
    add("--command-config", metavar="FILE", help="properties of the client, such as security and time-outs")


def add_plan(parser: ArgumentParser) -> None:
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")


# Subcommands ------------------------------------------------------------------------------------------------


def friendly_tool(program: str, description: str, subcommands: Mapping[str, Subcommand]) -> Tool:
    """A tool for people: its commands take times such as `-30m`, and their help begins with a sentence."""
    return Tool(program, description, subcommands, make_parser=_command_parser)


def _command_parser(program: str, summary: str) -> ArgumentParser:
    return FriendlyParser(program, summary[0].upper() + summary[1:] + ".")


# The cluster ------------------------------------------------------------------------------------------------


def settle_bootstrap(options: Namespace) -> str:
    """Where the cluster is: as the flag says, as the variable says, or the broker on this machine."""
    if not options.bootstrap_server:
        options.bootstrap_server = os.environ.get(BOOTSTRAP_VARIABLE) or _broker_here() or DEFAULT_BOOTSTRAP
    place: str = options.bootstrap_server
    return place


def _broker_here() -> str | None:
    from barnabas.cli.server.running_servers import running_servers
    from barnabas.runtime.disk.folder_disk import FolderDisk

    try:
        servers = running_servers(FolderDisk())
    except OSError:
        return None
    places = [
        info.listeners.get("PLAINTEXT") or next(iter(info.listeners.values()))
        for info in servers
        if "broker" in info.roles and info.listeners
    ]
    # Of several, the one at the usual port: a broker that comes later on another must not take its place.
    default_port = DEFAULT_BOOTSTRAP.rpartition(":")[2]
    usual = [place for place in places if place.rpartition(":")[2] == default_port]
    return next(iter([*usual, *places]), None)


def open_admin(parser: ArgumentParser, options: Namespace) -> AbstractContextManager[Admin]:
    """An admin client that has reached the cluster."""
    from barnabas.cli.framework import connecting

    settle_bootstrap(options)
    return connecting.open_admin(parser, options)


def client_options(parser: ArgumentParser, options: Namespace) -> dict[str, object]:
    """For a producer or consumer at the same cluster."""
    from barnabas.cli.framework import connecting

    settle_bootstrap(options)
    return connecting.client_properties(parser, options)


# Plans ------------------------------------------------------------------------------------------------------


def may_go_on(program: str, options: Namespace, plan: Iterable[str]) -> bool:
    """Show what will be done; whether to do it.  Without a terminal only `--yes` is a yes."""
    lines = list(plan)
    for line in lines:
        print(one_line(line), file=sys.stderr)
    if options.dry_run:
        print("nothing was done (--dry-run)", file=sys.stderr)
        return False
    if options.yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"{program}: there is no terminal to ask at; say --yes, or --dry-run to look only")
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    raise CommandError(f"{program}: nothing was done")


# Errors -----------------------------------------------------------------------------------------------------


def refusal(kind: Literal["topic", "group"], name: object, error: KafkaError) -> str:
    """What became of a topic or a group.  That one is not there is said as people say it: the protocol's own
    words are about servers and coordinators."""
    from barnabas.base.errors import ErrorCode
    from barnabas.cli.framework.kafka_errors import sentence

    if error.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND):
        return f"there is no {kind} {name}; barnabas {kind} list shows those that there are"
    return f"{name}: {sentence(error)}"


def tell_errors(
    program: str, errors: Mapping[K, KafkaError], kind: Literal["topic", "group"] | None = None
) -> Exit:
    """One line for each row that failed, with `kind` about whole topics or groups; the code that tells of
    them all."""
    from barnabas.cli.framework.kafka_errors import exit_code, sentence

    sys.stdout.flush()
    for key, error in errors.items():
        line = f"{key}: {sentence(error)}" if kind is None else refusal(kind, key, error)
        print(one_line(f"{program}: {line}"), file=sys.stderr)
    codes = {exit_code(error) for error in errors.values()}
    if not codes:
        return Exit.OK
    return codes.pop() if len(codes) == 1 else Exit.FAILED
