"""Parsing of command lines, the same for every tool.

Flags are never abbreviated; a long flag may be written with one dash, as in older books, from when
Apache Kafka's tools accepted both; the error for an unknown flag is one line that suggests the closest match.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from barnabas import __version__
from barnabas.cli.framework.exits import Exit, HelpShownError, UsageError
from barnabas.cli.framework.text.terminal import filled


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of texts, but for those that do not fit."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(filled(line, width, indent, indent) for line in text.splitlines())

    def _format_usage(self, *given: Any) -> str:
        """With less space before the lines where the name of a command is so long that they do not fit."""
        usage = super()._format_usage(*given)
        if all(len(line) <= self._width for line in usage.splitlines()):
            return usage
        lines = [""]
        for word in _usage_words(usage):
            if lines[-1] and len(lines[-1]) + 1 + len(word) > self._width:
                lines.append(" " * len("usage:"))
            lines[-1] += f" {word}" if lines[-1] else word
        return "\n".join(lines) + "\n\n"


def _usage_words(usage: str) -> list[str]:
    """Its words; what is in brackets is one."""
    words: list[str] = []
    depth = 0
    for word in usage.split():
        if depth:
            words[-1] += f" {word}"
        else:
            words.append(word)
        depth += word.count("[") - word.count("]") + word.count("(") - word.count(")")
    return words


class ArgumentParser(argparse.ArgumentParser):
    """argparse without abbreviations, tracebacks and two-line errors."""

    shows_usage_when_bare = False

    def __init__(self, prog: str, description: str, epilog: str | None = None) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=_Formatter,
        )

    def format_help(self) -> str:
        from barnabas.cli.framework.text.examples import examples_of  # Only needed here.

        return super().format_help() + examples_of(self.prog)

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Returns the values or raises UsageError; `--help` prints and raises HelpShownError."""
        if not arguments and self.shows_usage_when_bare:
            self.print_help(sys.stderr)
            raise HelpShownError("", Exit.USAGE)
        given = self._with_two_dashes(arguments)
        parsed, unknown = self.parse_known_args(given)
        if unknown and not unknown[0].startswith("-"):
            # argparse gives all positional arguments at once: in `TOPIC -i lines FILE` it finds no place for
            # the second one.
            parsed, unknown = self.parse_known_intermixed_args(given)
        if unknown:
            flag = unknown[0].partition("=")[0]
            if flag.startswith("-") and flag != "-":
                self.error(f"unknown option {flag}{did_you_mean(flag, self._option_string_actions)}")
            # `topics list` for `topics --list`.
            flag = f"--{unknown[0]}"
            hint = f" (did you mean {flag}?)" if flag in self._option_string_actions else ""
            self.error(f"unexpected argument {unknown[0]!r}{hint}")
        return parsed

    def _with_two_dashes(self, arguments: Sequence[str]) -> list[str]:
        known = self._option_string_actions
        given: list[str] = []
        for position, argument in enumerate(arguments):
            if argument == "--":
                return given + list(arguments[position:])
            flag = argument.partition("=")[0]
            single = flag.startswith("-") and not flag.startswith("--")
            if single and flag not in known and "-" + flag in known:
                argument = "-" + argument
            given.append(argument)
        return given

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}; see {self.prog} --help")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise HelpShownError(message or "")


class KafkaParser(ArgumentParser):
    """For the tools that Apache Kafka also has: without arguments they print their usage, and a flag with one
    value cannot be repeated (using the last one would hide a mistake)."""

    shows_usage_when_bare = True

    def __init__(self, prog: str, description: str, epilog: str | None = None) -> None:
        super().__init__(prog, description, epilog)
        self.register("action", None, _StoreOnce)
        self.register("action", "store", _StoreOnce)
        self.add_argument(
            "--version", action="version", version=f"barnabas {__version__}", help="show the version"
        )


class _StoreOnce(argparse.Action):
    """Stores the value of a flag that may be given only once."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        given: set[str] = namespace.__dict__.setdefault("_given", set())
        if option_string is not None and self.dest in given:
            parser.error(f"{option_string} is given more than once")
        given.add(self.dest)
        setattr(namespace, self.dest, values)


def did_you_mean(wrong: str, right: Iterable[str]) -> str:
    """` (did you mean X?)`, or an empty string without a close match."""
    import difflib  # Only needed for errors.

    names = list(right)
    # Letters in another order are the likeliest slip.
    nearest = [name for name in names if sorted(name) == sorted(wrong)]
    nearest = nearest or difflib.get_close_matches(wrong, names, n=1, cutoff=0.6)
    return f" (did you mean {nearest[0]}?)" if nearest else ""
