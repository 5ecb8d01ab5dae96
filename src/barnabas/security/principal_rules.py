"""ssl.principal.mapping.rules (KIP-371): from the name in a certificate to a user name.  Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from barnabas.config.errors import ConfigError

_RULE = re.compile(r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_SEPARATOR = re.compile(r"\s*(?:,\s*|$)")
_REFERENCE = re.compile(r"\$(\d)")


class _Rule(NamedTuple):
    """One rule; without a pattern the name is taken as it is."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        mapped = _REFERENCE.sub(lambda found: match[int(found[1])] or "", self.replacement)
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.case, mapped)


class PrincipalRules:
    """The rules, in order: the first that matches decides."""

    def __init__(self, text: str) -> None:
        self._rules = tuple(_parse(text)) or (_Rule(None, "", ""),)

    def user(self, name: str) -> str:
        """The user of a distinguished name; ValueError if no rule matches."""
        for rule in self._rules:
            user = rule.apply(name)
            if user is not None:
                return user
        raise ValueError(f"No rules apply to {name}")


def _parse(text: str) -> list[_Rule]:
    rules: list[_Rule] = []
    position, end = 0, len(text.rstrip())
    position += len(text) - len(text.lstrip())
    while position < end:
        match = _RULE.match(text, position)
        separator = None if match is None else _SEPARATOR.match(text, match.end())
        if match is None or separator is None:
            raise _invalid(text)
        rules.append(_rule(match, text))
        position = separator.end()
    return rules


def _rule(match: re.Match[str], text: str) -> _Rule:
    if match[1]:
        return _Rule(None, "", "")
    try:
        pattern = re.compile(match[2].replace("\\/", "/"))
    except re.error as error:
        raise _invalid(text) from error
    if any(int(number) > pattern.groups for number in _REFERENCE.findall(match[3])):
        raise _invalid(text)
    return _Rule(pattern, match[3].replace("\\/", "/"), match[4])


def _invalid(text: str) -> ConfigError:
    return ConfigError(
        f"Invalid rule in ssl.principal.mapping.rules: `{text}`",
        allowed="DEFAULT, or RULE:pattern/replacement/ with L or U behind it, separated by commas",
    )
