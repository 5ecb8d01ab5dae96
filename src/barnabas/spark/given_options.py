"""The options that a program gives to a format, read by name: shared by the sources and the sink.

Contains names, texts, flags and numbers; what an option means belongs to the format that has it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches

from barnabas.spark.client_names import CLIENT_PREFIX, wrong_name

SELECTIONS = ("subscribe", "subscribePattern", "assign")


class OptionError(ValueError):
    """An option with a name or a value that the format cannot accept."""


class GivenOptions:
    """Options by name.  Spark ignores the case of names, so do we."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def names(self) -> list[str]:
        """In lower case, in the order in which they were given."""
        return list(self._given)

    def check_names(self, known: Sequence[str], kind: str, passed: Collection[str] = ()) -> None:
        """Raises for the first unknown name: to ignore it would do something else than was meant.

        Names in `passed`, and those with one of the prefixes that end with `*` in it, belong to others.
        """
        lowered = {name.lower(): name for name in known}
        prefixes = tuple(name[:-1] for name in passed if name.endswith("*"))
        for name in self._given:
            if name in lowered or name in passed or name.startswith(prefixes):
                continue
            close = get_close_matches(name.replace("_", ""), lowered, 1)
            hint = f"did you mean {lowered[close[0]]}?" if close else f"known are {', '.join(known)}"
            raise OptionError(f"{name} is not an option of this {kind}; {hint}")

    def text(self, name: str) -> str | None:
        value = self._given.get(name.lower())
        return None if value is None else value.strip()

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise OptionError(f"option {name} is true or false, not {text!r}")
        return text.lower() == "true"

    def number(self, name: str, least: int) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise OptionError(f"option {name} is a whole number of at least {least}, not {text!r}")
        return value

    def selection(self) -> tuple[str, str]:
        """The one option that names topics, and its value; a pattern is a regular expression."""
        given = [name for name in SELECTIONS if name in self]
        if len(given) != 1:
            said = f"not {' and '.join(given)}" if given else "none is given"
            raise OptionError(
                f"topics are named by exactly one of the options {', '.join(SELECTIONS)}; {said}"
            )
        text = self.text(given[0]) or ""
        if given == ["subscribePattern"]:
            try:
                re.compile(text)
            except re.error as error:
                raise OptionError(
                    f"option subscribePattern: {text!r} is not a regular expression: {error}"
                ) from None
        return given[0], text

    def client(self, refused: Mapping[str, str]) -> dict[str, str]:
        """The client's options, without their prefix; `refused` has a message for each forbidden one."""
        size = len(CLIENT_PREFIX)
        options = {
            name[size:]: value for name, value in self._given.items() if name.startswith(CLIENT_PREFIX)
        }
        for name, message in refused.items():
            if name in options:
                raise OptionError(message)
        if wrong := wrong_name(options):
            raise OptionError(wrong)
        return options
