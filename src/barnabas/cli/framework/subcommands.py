"""Tools with subcommands: `topic create`, `features --bootstrap-server … describe`.

    SUBCOMMANDS = {"describe": Subcommand("show the features", declare, call)}
    run = Tool("barnabas features", "…", SUBCOMMANDS, connection).run

Flags that all subcommands share may precede the subcommand, as Apache Kafka's tools require, or follow it.
For a tool without such flags the subcommand is the first argument.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from barnabas import __version__
from barnabas.cli.framework.arguments import ArgumentParser, KafkaParser, did_you_mean
from barnabas.cli.framework.exits import Exit, UsageError
from barnabas.cli.framework.text.examples import examples_of
from barnabas.cli.framework.text.terminal import filled

# That of argparse on a terminal of 80 columns.
HELP_WIDTH = 78
SYNONYMS = {
    "ls": "list",
    "describe": "show",
    "info": "show",
    "get": "show",
    "rm": "delete",
    "remove": "delete",
    "new": "create",
    "add": "create",
    "edit": "alter",
    "set": "alter",
}


def no_flags(parser: ArgumentParser) -> None:
    """For a subcommand without flags of its own."""


@dataclass(frozen=True, slots=True)
class Subcommand:
    """A subcommand: one line of help, its flags, and its implementation."""

    summary: str
    declare: Callable[[ArgumentParser], None]
    call: Callable[[ArgumentParser, Namespace], int]


class _CommandParser(KafkaParser):
    """A subcommand without arguments reports what is missing instead of printing its usage."""

    shows_usage_when_bare = False


@dataclass(frozen=True, slots=True)
class Tool:
    """`declare` adds the flags that all subcommands share; `make_parser` creates the parser of a subcommand
    from its name and summary."""

    program: str
    description: str
    subcommands: Mapping[str, Subcommand]
    declare: Callable[[ArgumentParser], None] | None = None
    make_parser: Callable[[str, str], ArgumentParser] = _CommandParser

    def run(self, arguments: Sequence[str]) -> int:
        """Find the subcommand and call it."""
        if not arguments or arguments[0] in ("-h", "--help", "-help"):
            (sys.stdout if arguments else sys.stderr).write(self.help_text())
            return Exit.OK if arguments else Exit.USAGE
        if self.declare is not None and arguments[0] in ("--version", "-version", "-v"):
            print(f"barnabas {__version__}")
            return Exit.OK
        position = self._position(arguments)
        name = self._meant(arguments[position])
        if name not in self.subcommands:
            kind = "option" if name.startswith("-") else "command"
            hint = did_you_mean(name, self.subcommands)
            raise UsageError(f"{self.program}: unknown {kind} {name}{hint}; see {self.program} --help")
        parser = self.parser(name)
        options = parser.parse([*arguments[:position], *arguments[position + 1 :]])
        return self.subcommands[name].call(parser, options)

    def _meant(self, name: str) -> str:
        """The subcommand that other tools call `ls`, `describe` or `rm`, if this tool has it under its own
        name."""
        if name in self.subcommands:
            return name
        meaning = SYNONYMS.get(name, name)
        return next((own for own in self.subcommands if SYNONYMS.get(own, own) == meaning), name)

    def parser(self, name: str) -> ArgumentParser:
        summary = self.subcommands[name].summary
        if not summary.endswith("."):
            summary = f"{summary[0].upper()}{summary[1:]}."
        parser = self.make_parser(f"{self.program} {name}", summary)
        if self.declare is not None:
            self.declare(parser)
        self.subcommands[name].declare(parser)
        return parser

    def _common(self) -> ArgumentParser | None:
        """A parser with the flags that all subcommands share, if there are any."""
        if self.declare is None:
            return None
        common = KafkaParser(self.program, self.description)
        self.declare(common)
        return common

    def _position(self, arguments: Sequence[str]) -> int:
        """The index of the subcommand: the first argument that is neither a flag nor the value of one."""
        common = self._common()
        if common is None:
            return 0
        known = common._option_string_actions
        is_value = False
        for position, argument in enumerate(arguments):
            if is_value:
                is_value = False
            elif not argument.startswith("-"):
                return position
            else:
                action = known.get(argument) or known.get("-" + argument)
                is_value = action is not None and action.nargs != 0
        commands = ", ".join(self.subcommands)
        raise UsageError(
            f"{self.program}: no command given, expected one of {commands}; see {self.program} --help"
        )

    def help_text(self) -> str:
        width = max(map(len, self.subcommands))
        rows = "".join(
            f"  {name:<{width}}  {subcommand.summary}\n" for name, subcommand in self.subcommands.items()
        )
        common = self._common()
        before = "" if common is None else "[OPTIONS] "
        options = "" if common is None else "\noptions:\n" + _options_of(common)
        return (
            f"usage: {self.program} {before}COMMAND [OPTIONS]\n\n{filled(self.description, HELP_WIDTH)}\n\n"
            f"commands:\n{rows}\n  -h, --help after a command shows its options\n{options}"
            f"{examples_of(self.program)}"
        )


def _options_of(parser: ArgumentParser) -> str:
    """The options in the help of a parser."""
    return parser.format_help().partition("options:\n")[2].partition("\nexamples:\n")[0]
