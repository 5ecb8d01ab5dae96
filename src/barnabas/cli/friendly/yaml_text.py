"""Plain data as YAML 1.2: only what JSON can hold, in the shape that people like to read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

# Words that need no quotes: they begin with a letter, and nothing in them has a meaning in YAML.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./+-]*(?: [A-Za-z0-9_./+-]+)*")
# Words that readers of YAML 1.1 or 1.2 take for something else than a text.
_TAKEN = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n", ".nan", ".inf"})
_STEP = "  "


def yaml_item(value: object) -> str:
    """The value as one item of a list, with its line ends."""
    lines = list(_lines(value))
    first, rest = lines[0], lines[1:]
    return "".join(f"{line}\n" for line in [f"- {first}", *(_STEP + line for line in rest)])


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, one in value.items():
            yield from _entry(f"{_scalar(str(key))}:", one)
    elif isinstance(value, list | tuple) and value:
        for one in value:
            lines = list(_lines(one))
            yield f"- {lines[0]}"
            yield from (_STEP + line for line in lines[1:])
    else:
        yield _scalar(value)


def _entry(key: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping | list | tuple) and value:
        yield key
        yield from (_STEP + line for line in _lines(value))
    else:
        yield f"{key} {_scalar(value)}"


def _scalar(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    text = str(value)
    if _PLAIN.fullmatch(text) and text.lower() not in _TAKEN:
        return text
    return '"' + "".join(map(_quoted, text)) + '"'


def _quoted(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character == "\n":
        return "\\n"
    if character.isprintable():
        return character
    return f"\\U{ord(character):08x}"
