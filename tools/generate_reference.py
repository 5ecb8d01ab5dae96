"""Writes the pages of docs/reference/ that are generated from the code: `python -m tools.generate_reference`.

commands.md comes from the parsers of the command line, apis.md from the routes of a broker, client.md and
test-kit.md from signatures and docstrings.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from unittest import mock

from barnabas.broker.metrics.registry import Metrics
from barnabas.broker.network.routes import Role, Route, routes_for
from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import Exit
from barnabas.cli.framework.text.examples import EXAMPLES
from barnabas.cli.main import COMMANDS
from barnabas.cli.server.dev import settings
from barnabas.config.node.node import read_node
from barnabas.config.option import Mode
from tools.client_reference.page import client_page
from tools.kit_reference import kit_page

PROJECT = Path(__file__).resolve().parents[1]
REFERENCE = PROJECT / "docs" / "reference"
DO_NOT_EDIT = "Written by `python -m tools.generate_reference` from the code; do not edit."
ABOUT_COMMANDS = """\
Data goes to stdout, everything else to stderr. Flags are never abbreviated; a long flag may be written with
one dash. `barnabas COMMAND --help` shows the contents of this page.
"""
ABOUT_APIS = """\
The APIs that a node announces and serves, by listener, in the versions of Apache Kafka 4.1.0. Every API has a
file in `broker/handlers/` that starts with a summary and the KIPs it implements.
"""

EXITS = {
    Exit.OK: "success",
    Exit.FAILED: "failure; the line on stderr has the reason",
    Exit.USAGE: "invalid command line",
    Exit.UNREACHABLE: "a server does not respond",
    Exit.DENIED: "permission denied",
    Exit.NOT_FOUND: "not found",
    Exit.TIMED_OUT: "timed out",
    Exit.INTERRUPTED: "Ctrl+C",
    Exit.BROKEN_PIPE: "the reader of the output closed the pipe",
    Exit.TERMINATED: "SIGTERM",
}


class _Parsing(Exception):
    """Raised when a tool is about to parse its command line."""

    def __init__(self, parser: ArgumentParser) -> None:
        super().__init__(parser.prog)
        self.parser = parser


# Commands ---------------------------------------------------------------------------------------------------


def commands_page() -> str:
    parts = [
        f"# Commands\n\n{DO_NOT_EDIT}\n",
        ABOUT_COMMANDS,
        "## Exit codes\n\n| code | meaning |\n|---:|---|\n"
        + "".join(f"| {int(code)} | {EXITS[code]} |\n" for code in Exit),
    ]
    parts.append(_refused())
    for name, (module, summary) in sorted(COMMANDS.items()):
        examples = EXAMPLES[name].strip()
        parts.append(
            f"## barnabas {name}\n\n{summary[0].upper()}{summary[1:]}.\n\n```text\n{examples}\n```\n"
        )
        parts += [_command(parser) for parser in _parsers(importlib.import_module(module))]
    return "\n".join(parts)


def _refused() -> str:
    """Flags of Apache Kafka's tools that are not supported; checked by tests/cli/framework/test_flags.py."""
    return (
        "## Unsupported flags of Apache Kafka's tools\n\n"
        "None: every flag of the tools of 4.1.0 is accepted.\n"
    )


def _parsers(tool: ModuleType) -> Iterator[ArgumentParser]:
    """The parser of a tool, or those of its subcommands."""
    names = [[name] for name in getattr(tool, "SUBCOMMANDS", ())] or [[]]
    for arguments in names:
        parser = parser_of(tool.run, arguments)
        if parser is not None:
            yield parser


def parser_of(run: Callable[[list[str]], int], arguments: list[str]) -> ArgumentParser | None:
    """The parser of a tool's command line; None if it has none."""

    def parse(parser: ArgumentParser, given: object) -> argparse.Namespace:
        raise _Parsing(parser)

    with mock.patch.object(ArgumentParser, "parse", parse):
        try:
            run(arguments)
        except _Parsing as parsing:
            return parsing.parser
    return None


def _command(parser: ArgumentParser) -> str:
    actions = [
        action
        for action in parser._actions
        if action.dest not in ("help", "version") and action.help != argparse.SUPPRESS
    ]
    named = " ".join(_named(action) for action in actions if not action.option_strings)
    lines = [f"`{parser.prog}{' ' + named if named else ''}{' [OPTIONS]' if actions else ''}`\n"]
    if parser.description and parser.prog.count(" ") > 1:
        lines.append(f"{parser.description}\n")
    if actions:
        lines.append("| option | meaning |\n|---|---|")
        lines += [f"| {_flags(action)} | {_meaning(action)} |" for action in actions]
    return "\n".join(lines) + "\n"


def _named(action: argparse.Action) -> str:
    return str(action.metavar or action.dest.upper())


def _flags(action: argparse.Action) -> str:
    value = ""
    if action.nargs != 0:
        value = f" {', '.join(map(str, action.choices))}" if action.choices else f" {_named(action)}"
    if not action.option_strings:
        return f"`{_named(action)}`"
    return ", ".join(f"`{flag}`" for flag in action.option_strings) + (f" `{value.strip()}`" if value else "")


def _meaning(action: argparse.Action) -> str:
    # In the texts of argparse a percent sign is two.
    text = " ".join((action.help or "").replace("|", "\\|").replace("%%", "%").split())
    return f"{text} (required)" if action.required and action.option_strings else text


# APIs -------------------------------------------------------------------------------------------------------


def apis_page() -> str:
    node = read_node(settings(0, "data"))

    def served(role: Role) -> dict[int, Route]:
        return routes_for(Mode.KRAFT, role, node.settings, Metrics())

    return "\n".join(
        [
            f"# APIs\n\n{DO_NOT_EDIT}\n",
            ABOUT_APIS,
            "## On listeners for clients and brokers\n",
            _routes(served(Role.INTER_BROKER)),
            "## On listeners of the controller\n",
            _routes(served(Role.CONTROLLER)),
        ]
    )


def _routes(routes: dict[int, Route]) -> str:
    lines = ["| key | API | versions | file |", "|---:|---|---|---|"]
    for key, route in routes.items():
        lowest, highest = route.announced.lowest, route.announced.highest
        versions = str(lowest) if lowest == highest else f"{lowest} to {highest}"
        lines.append(f"| {key} | {route.api.name} | {versions} | `{route.place}` |")
    return "\n".join(lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands_page,
    "apis.md": apis_page,
    "client.md": lambda: client_page(DO_NOT_EDIT),
    "test-kit.md": lambda: kit_page(DO_NOT_EDIT),
}


def main() -> int:
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), "utf-8")
        print(f"docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
