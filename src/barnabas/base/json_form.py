"""Plain data as JSON text and back: dataclasses, named tuples, enums, ids, bytes and tuples.

The form is for people to read, `{"is": "Vote", "epoch": 3}`, and safe to take from a peer: only the given
types can be decoded.  The JSON of the Kafka protocol's messages belongs in `protocol.json_form`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from barnabas.base.ids import Uuid

# The name of the type.  A mapping cannot have this key.
KIND = "is"


class JsonForm:
    """Encodes and decodes the given types, and `Uuid`, `bytes` (ASCII), tuples and JSON's own values."""

    def __init__(self, types: Iterable[type]) -> None:
        self._types: Mapping[str, type] = {kind.__name__: kind for kind in types}

    def encode(self, value: object) -> bytes:
        """One line of ASCII, without a newline."""
        return json.dumps(self._plain(value)).encode("ascii")

    def decode(self, text: bytes) -> Any:
        """Raises ValueError if the text is not JSON, or names a type or a field that is not known."""
        try:
            return _tuples(json.loads(text, object_hook=self._typed))
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a known message: {error}") from error

    def _plain(self, value: Any) -> Any:
        kind = type(value).__name__
        match value:
            case Enum():
                return {KIND: kind, "name": value.name}
            case Uuid():
                return {KIND: kind, "text": str(value)}
            case bytes():
                return {KIND: kind, "text": value.decode("ascii")}
            case tuple() if not hasattr(value, "_fields"):
                return [self._plain(each) for each in value]
        names = getattr(value, "_fields", None)
        if is_dataclass(value):
            names = [field.name for field in fields(value)]
        if names is None:
            return value
        return {KIND: kind, **{name: self._plain(getattr(value, name)) for name in names}}

    def _typed(self, value: dict[str, Any]) -> Any:
        content = {name: _tuples(each) for name, each in value.items()}
        name = content.pop(KIND, None)
        if name is None:
            return content
        if name in ("Uuid", "bytes"):
            text = str(content["text"])
            return Uuid.parse(text) if name == "Uuid" else text.encode("ascii")
        kind = self._types[name]
        return kind[content["name"]] if issubclass(kind, Enum) else kind(**content)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
