"""The line of a JAAS configuration: `org.example.LoginModule required name="value" ...;`."""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s=;"]+)|([=;]))', re.DOTALL)
_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class JaasEntry(NamedTuple):
    """One login module and its options."""

    module: str
    options: dict[str, str]

    def __repr__(self) -> str:
        """Without the options: passwords are among them."""
        return f"JaasEntry({self.module})"


def parse_jaas(text: str) -> JaasEntry:
    """Parses one entry; raises ValueError, whose message has nothing of the values."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != ("mark", ";"):
        raise ValueError("the JAAS configuration must be `MODULE required NAME=VALUE ...;` with a semicolon")
    if tokens[1][1].lower() not in _FLAGS:
        raise ValueError("the login module must be followed by required, requisite, sufficient or optional")
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    if len(rest) % 3:
        raise ValueError("an option of the JAAS configuration is not NAME=VALUE")
    for name, equals, value in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if equals != ("mark", "=") or "mark" in (name[0], value[0]):
            raise ValueError("an option of the JAAS configuration is not NAME=VALUE")
        options[name[1]] = value[1]
    return JaasEntry(tokens[0][1], options)


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError("the JAAS configuration has a quotation mark without its other half")
        quoted, word, mark = match.groups()
        if quoted is not None:
            tokens.append(("text", _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]), quoted)))
        else:
            tokens.append(("mark", mark) if word is None else ("text", word))
        position = match.end()
    return tokens
