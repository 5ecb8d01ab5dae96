"""STRING, the numbers, JSON: each both ways."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from barnabas.client.serialization import (
    DOUBLE,
    FLOAT,
    INTEGER,
    JSON,
    LONG,
    SHORT,
    STRING,
    Format,
    Json,
)
from barnabas.client.serialization.by_name import deserializer, serializer


@pytest.mark.parametrize(
    ("form", "value", "data"),
    [
        (STRING, "grün", "grün".encode()),
        (SHORT, -2, b"\xff\xfe"),
        (INTEGER, 258, b"\0\0\1\2"),
        (LONG, -1, b"\xff" * 8),
        (DOUBLE, 1.5, b"\x3f\xf8" + bytes(6)),
        (FLOAT, 1.5, b"\x3f\xc0\0\0"),
        (JSON, {"ä": [1, None, "🐟"]}, '{"ä":[1,null,"🐟"]}'.encode()),
    ],
    ids=repr,
)
def test_there_and_back(form: Format[Any], value: Any, data: bytes) -> None:
    assert form.serialize("t", value) == data
    assert form.deserialize("t", data) == value
    assert form.serialize("t", None) is None
    assert form.deserialize("t", None) is None


@pytest.mark.parametrize(
    ("form", "value", "error"),
    [
        (STRING, b"bytes", TypeError),
        (SHORT, 2**15, ValueError),
        (INTEGER, "1", ValueError),
        (LONG, 1.5, ValueError),
        (JSON, float("nan"), ValueError),
        (JSON, b"bytes", TypeError),
    ],
)
def test_what_does_not_fit_is_refused(form: Format[Any], value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        form.serialize("t", value)


@pytest.mark.parametrize("form", [LONG, JSON, STRING])
def test_bytes_of_another_format_are_refused(form: Format[Any]) -> None:
    with pytest.raises(ValueError):
        form.deserialize("t", b"\xff{")


@dataclass
class Order:
    item: str
    count: int


def test_objects_as_json() -> None:
    orders = Json(from_json=lambda fields: Order(**fields), to_json=asdict)
    data = orders.serialize("t", Order("pears", 2))
    assert json.loads(data or b"") == {"item": "pears", "count": 2}
    assert orders.deserialize("t", data) == Order("pears", 2)


def test_json_has_a_name_too() -> None:
    serialize, deserialize = (
        serializer("json", "value.serializer"),
        deserializer("json", "value.deserializer"),
    )
    assert serialize is not None
    assert deserialize is not None
    assert deserialize("t", serialize("t", [1])) == [1]
