"""Shared by the friendly commands: parsers, the bootstrap server, confirmation of plans, error reports."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

from barnabas.cli.framework.arguments import ArgumentParser, did_you_mean
from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.framework.subcommands import Subcommand, Tool
from barnabas.cli.framework.text.terminal import tell
from barnabas.cli.friendly.output import FORMATS
from barnabas.cli.friendly.target.resolve import BOOTSTRAP_VARIABLE as BOOTSTRAP_VARIABLE
from barnabas.cli.friendly.target.resolve import DEFAULT_BOOTSTRAP, check_target
from barnabas.cli.friendly.target.resolve import resolve_bootstrap as resolve_bootstrap

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from barnabas.base.errors import KafkaError
    from barnabas.client.sync import Admin

K = TypeVar("K")

# `-30m` or `-5` as the value of a flag is not a flag.
_BACKWARDS = re.compile(r"-\d+[a-z]*(\d+[a-z]+)*")


class FriendlyParser(ArgumentParser):
    """Accepts times such as `-30m` as values of flags."""

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
        "-o",
        "--output",
        choices=FORMATS,
        default="table",
        metavar="FORMAT",
        help=f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]} (default table)",
    )
    parser.add_argument(
        "--json", dest="output", action="store_const", const="json", help="the same as -o json"
    )


def add_cluster(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-b",
        "--bootstrap-server",
        metavar="HOST[:PORT],...",
        help=f"brokers to connect to first (default ${BOOTSTRAP_VARIABLE}, else the context in use, else the "
        f"broker on this machine, else {DEFAULT_BOOTSTRAP})",
    )
    add("--context", metavar="NAME", help="the cluster with this name; see barnabas context")
    add("--command-config", metavar="FILE", help="properties file of the client")


def add_plan(parser: ArgumentParser) -> None:
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--dry-run", action="store_true", help="only show the plan")


# Subcommands ------------------------------------------------------------------------------------------------


def friendly_tool(program: str, description: str, subcommands: Mapping[str, Subcommand]) -> Tool:
    """A tool whose subcommands accept times such as `-30m`, and whose help starts with a sentence."""
    return Tool(program, description, subcommands, make_parser=_command_parser)


def _command_parser(program: str, summary: str) -> ArgumentParser:
    return FriendlyParser(program, summary)


# The cluster ------------------------------------------------------------------------------------------------


def open_admin(parser: ArgumentParser, options: Namespace) -> AbstractContextManager[Admin]:
    """An admin client that has reached the cluster."""
    from barnabas.cli.framework import connecting

    _resolve(parser, options)
    return connecting.open_admin(parser, options)


def client_options(parser: ArgumentParser, options: Namespace) -> dict[str, object]:
    """The properties of a producer or consumer of the same cluster."""
    from barnabas.cli.framework import connecting

    _resolve(parser, options)
    return connecting.client_properties(parser, options)


def _resolve(parser: ArgumentParser, options: Namespace) -> None:
    """Which cluster; fails at once if nothing can answer there."""
    from barnabas.cli.framework import connecting

    resolve_bootstrap(options, parser.prog)
    given = connecting.client_properties(parser, options)
    check_target(parser.prog, options, str(given.get("security.protocol", "PLAINTEXT")))


# Plans ------------------------------------------------------------------------------------------------------


def confirm_plan(program: str, options: Namespace, plan: Iterable[str]) -> bool:
    """Prints the plan; returns whether to execute it.  Without a terminal `--yes` is required."""
    lines = list(plan)
    for line in lines:
        tell(line)
    if options.dry_run:
        tell("nothing was done (--dry-run)")
        return False
    if options.yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"{program}: no terminal to confirm on; give --yes, or --dry-run for the plan only")
    print("Continue? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    raise CommandError(f"{program}: nothing was done")


# Errors -----------------------------------------------------------------------------------------------------


def refusal(
    kind: Literal["topic", "group"], name: object, error: KafkaError, admin: Admin | None = None
) -> str:
    """The message for an error of a topic or group.  A missing one gets its own message: the protocol's are
    about servers and coordinators."""
    from barnabas.base.errors import ErrorCode
    from barnabas.cli.framework.kafka_errors import sentence

    if error.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND):
        hint = "" if admin is None else did_you_mean(str(name), _names(kind, admin))
        return f"there is no {kind} {name}; see barnabas {kind} list{hint}"
    return f"{name}: {sentence(error)}"


def _names(kind: Literal["topic", "group"], admin: Admin) -> list[str]:
    """Those that there are, for a hint; none if this user may not list them."""
    from barnabas.base.errors import KafkaError

    try:
        if kind == "topic":
            return list(admin.list_topics())
        return [group.group_id for group in admin.list_groups().groups]
    except KafkaError:
        return []


def report_errors(
    program: str,
    errors: Mapping[K, KafkaError],
    kind: Literal["topic", "group"] | None = None,
    admin: Admin | None = None,
) -> Exit:
    """Prints one line per failed row; with `kind` the keys are topics or groups.  Returns the exit code for
    all of them."""
    from barnabas.cli.framework.kafka_errors import exit_code, sentence

    sys.stdout.flush()
    for key, error in errors.items():
        line = f"{key}: {sentence(error)}" if kind is None else refusal(kind, key, error, admin)
        tell(f"{program}: {line}")
    codes = {exit_code(error) for error in errors.values()}
    if not codes:
        return Exit.OK
    return codes.pop() if len(codes) == 1 else Exit.FAILED
