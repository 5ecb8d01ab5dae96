"""Which flags of a command line go together, said in Apache Kafka's words."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from typing import NoReturn

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import UsageError


class FlagRules:
    """Asked about one command line.  Flags are named as they are typed: `--topic`."""

    def __init__(self, parser: ArgumentParser, options: Namespace) -> None:
        self._parser = parser
        self._options = options

    def has(self, flag: str) -> bool:
        """Whether it is given; for flags without a default of their own."""
        destination = self._parser._option_string_actions[flag].dest
        return getattr(self._options, destination) not in (None, False, [])

    def exactly_one(self, flags: Iterable[str], message: str) -> str:
        """The one of these that is given; none or two are refused with the message."""
        given = [flag for flag in flags if self.has(flag)]
        if len(given) != 1:
            self.refuse(message)
        return given[0]

    def require(self, *flags: str) -> None:
        """All of these are needed."""
        for flag in flags:
            if not self.has(flag):
                self.refuse(f'Missing required argument "{_shown(flag)}"')

    def forbid(self, flag: str, others: Iterable[str], why: str = "") -> None:
        """The flag does not go with any of the others."""
        if not self.has(flag):
            return
        for other in others:
            if self.has(other):
                self.refuse(f'Option "{_shown(flag)}" can\'t be used with option "{_shown(other)}"{why}')

    def refuse(self, message: str) -> NoReturn:
        """End with a message of Apache Kafka's, and where to read on."""
        raise UsageError(f"{message} (see {self._parser.prog} --help)")


def _shown(flag: str) -> str:
    return f"[{flag.lstrip('-')}]"
