"""JSON as UTF-8, without spaces: of what Python's json module takes, or of objects of the program."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from barnabas.client.serialization.formats import Format

T = TypeVar("T")


class Json(Format[T]):
    """Objects as JSON.

        orders = Json(from_json=lambda fields: Order(**fields), to_json=dataclasses.asdict)
        Producer(value_serializer=orders)

    `to_json` makes what the json module takes, `from_json` the object out of what it has read.
    """

    def __init__(self, *, from_json: Callable[[Any], T], to_json: Callable[[T], Any]) -> None:
        self._from_json = from_json
        self._to_json = to_json
        # NaN and Infinity are none that other readers of JSON know.
        self._encode = json.JSONEncoder(
            ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
        ).encode

    def dump(self, value: T) -> bytes:
        return self._encode(self._to_json(value)).encode()

    def load(self, data: bytes) -> T:
        return self._from_json(json.loads(data))

    def __repr__(self) -> str:
        return "JSON" if self._to_json is _unchanged else f"Json({self._from_json!r}, {self._to_json!r})"


def _unchanged(value: Any) -> Any:
    return value


JSON: Format[Any] = Json(from_json=_unchanged, to_json=_unchanged)
