"""JSON-compatible data as YAML 1.2, in block style."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

# Text that needs no quotes: it starts with a letter, and contains nothing special in YAML.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./+-]*(?: [A-Za-z0-9_./+-]+)*")
# Words that YAML 1.1 or 1.2 parsers do not read as text.
_RESERVED = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n", ".nan", ".inf"})
_STEP = "  "


def yaml_item(value: object) -> str:
    """The value as an item of a list, with line ends."""
    lines = list(_lines(value))
    return "".join(f"{line}\n" for line in [f"- {lines[0]}", *(_STEP + line for line in lines[1:])])


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _entry(f"{_scalar(str(key))}:", item)
    elif isinstance(value, list | tuple) and value:
        for item in value:
            lines = list(_lines(item))
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
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
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
