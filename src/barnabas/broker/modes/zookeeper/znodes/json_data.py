"""JSON as Apache Kafka writes it into znodes: compact, UTF-8, in the order of its maps; and reading it.

What cannot be read raises MalformedZnodeError: the caller reports it and leaves the znode alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from barnabas.base.hashing import java_string_hash

# Above this ZooKeeper itself refuses data (`jute.maxbuffer`), so nothing larger is ever decoded.
MAX_DATA_BYTES = 16 * 1024 * 1024
LOAD_FACTOR = 0.75


class MalformedZnodeError(Exception):
    """The data of a znode is not what its path demands."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"the znode {path} cannot be read: {reason}")
        self.path = path
        self.reason = reason


def encode(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


def scala_order(keys: Iterable[str], buckets: int = 16) -> list[str]:
    """The iteration order of Scala's `mutable.HashMap`: by bucket, within a bucket by hash."""
    distinct = list(dict.fromkeys(keys))
    while len(distinct) >= buckets * LOAD_FACTOR:
        buckets *= 2

    def position(key: str) -> tuple[int, int]:
        unsigned = java_string_hash(key) & 0xFFFFFFFF
        improved = unsigned ^ unsigned >> 16
        return improved & (buckets - 1), improved - (1 << 32 if improved >> 31 else 0)

    return sorted(distinct, key=position)


def decode(path: str, data: bytes | None) -> JsonObject:
    """The JSON object of a znode."""
    if data is None or not data:
        raise MalformedZnodeError(path, "it has no data")
    if len(data) > MAX_DATA_BYTES:
        raise MalformedZnodeError(path, f"it has {len(data)} bytes, at most {MAX_DATA_BYTES} are read")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedZnodeError(path, f"it is no JSON ({error})") from error
    if not isinstance(value, dict):
        raise MalformedZnodeError(path, "it is JSON, but no object")
    return JsonObject(path, value)


class JsonObject:
    """An object in the data of a znode, whose fields are checked as they are read."""

    __slots__ = ("_path", "_values")

    def __init__(self, path: str, values: Mapping[str, Any]) -> None:
        self._path = path
        self._values = values

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def fail(self, reason: str) -> MalformedZnodeError:
        return MalformedZnodeError(self._path, reason)

    def integer(self, name: str, default: int | None = None) -> int:
        """A number, or the text of one: Apache Kafka writes times and producer ids as text."""
        value = self._values.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, str):
            try:
                value = int(value) if len(value) <= 20 else None
            except ValueError:
                value = None
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.fail(f"its field {name!r} is no integer")
        if not -(1 << 63) <= value < 1 << 63:
            raise self.fail(f"its field {name!r} is too large")
        return value

    def text(self, name: str) -> str:
        value = self.optional_text(name)
        if value is None:
            raise self.fail(f"its field {name!r} is missing")
        return value

    def optional_text(self, name: str) -> str | None:
        value = self._values.get(name)
        if value is not None and not isinstance(value, str):
            raise self.fail(f"its field {name!r} is no text")
        return value

    def nested_list(self, name: str) -> list[JsonObject]:
        """A list of objects; a missing one is empty."""
        return [self._nested(name, value) for value in self._list(name)]

    def nested(self, name: str) -> JsonObject:
        """An object; a missing one is empty."""
        return self._nested(name, self._values.get(name) or {})

    def texts(self, name: str) -> list[str]:
        values = self._list(name)
        if not all(isinstance(value, str) for value in values):
            raise self.fail(f"its field {name!r} is no list of texts")
        return [str(value) for value in values]

    def integers(self, name: str) -> tuple[int, ...]:
        return self._integers(name, self._values.get(name))

    def text_map(self, name: str) -> dict[str, str]:
        """Values that are no text are taken in their JSON form, as old tools wrote numbers."""
        return {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in self._map(name).items()
        }

    def integer_lists(self, name: str) -> dict[int, tuple[int, ...]]:
        """A map from numbers, written as text, to lists of numbers; a missing one is empty."""
        lists = {}
        for key, value in self._map(name).items():
            if not key.isascii() or not key.isdecimal() or len(key) > 10:
                raise self.fail(f"its field {name!r} has the key {key[:40]!r}, which is no number")
            lists[int(key)] = self._integers(name, value)
        return lists

    def names(self) -> list[str]:
        return list(self._values)

    def _nested(self, name: str, value: object) -> JsonObject:
        if not isinstance(value, dict):
            raise self.fail(f"its field {name!r} is no object")
        return JsonObject(self._path, value)

    def _list(self, name: str) -> Sequence[object]:
        value = self._values.get(name)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self.fail(f"its field {name!r} is no list")
        return value

    def _map(self, name: str) -> Mapping[str, object]:
        value = self._values.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.fail(f"its field {name!r} is no object")
        return value

    def _integers(self, name: str, value: object) -> tuple[int, ...]:
        if not isinstance(value, list) or not all(type(each) is int for each in value):
            raise self.fail(f"its field {name!r} is no list of integers")
        if not all(-(1 << 31) <= each < 1 << 31 for each in value):
            raise self.fail(f"its field {name!r} has a number that is too large")
        return tuple(value)
