"""Which flags can be combined; errors use Apache Kafka's messages."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from typing import NoReturn

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import UsageError


class FlagRules:
    """The rules for one command line.  Flags are named as typed: `--topic`."""

    def __init__(self, parser: ArgumentParser, options: Namespace) -> None:
        self._parser = parser
        self._options = options

    def has(self, flag: str) -> bool:
        """Whether the flag is given; only for flags without a default."""
        destination = self._parser._option_string_actions[flag].dest
        return getattr(self._options, destination) not in (None, False, [])

    def exactly_one(self, flags: Iterable[str], message: str) -> str:
        """The one of these flags that is given; none or several are refused with the message."""
        given = [flag for flag in flags if self.has(flag)]
        if len(given) != 1:
            self.refuse(message)
        return given[0]

    def require(self, *flags: str) -> None:
        """All of these flags are required."""
        for flag in flags:
            if not self.has(flag):
                self.refuse(f'Missing required argument "{_shown(flag)}"')

    def forbid(self, flag: str, others: Iterable[str], why: str = "") -> None:
        """The flag cannot be combined with any of the others."""
        if not self.has(flag):
            return
        for other in others:
            if self.has(other):
                self.refuse(f'Option "{_shown(flag)}" can\'t be used with option "{_shown(other)}"{why}')

    def refuse(self, message: str) -> NoReturn:
        """Raises UsageError with a message of Apache Kafka's, and a reference to --help."""
        raise UsageError(f"{message} (see {self._parser.prog} --help)")


def _shown(flag: str) -> str:
    return f"[{flag.lstrip('-')}]"
