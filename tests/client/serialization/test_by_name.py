"""Serialisers and deserialisers by name, by function, by object."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.serialization.by_name import deserializer, serializer
from barnabas.config.errors import ConfigError

JAVA = "org.apache.kafka.common.serialization."


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("String", "grün", "grün".encode()),
        ("Short", -2, b"\xff\xfe"),
        ("Integer", 258, b"\0\0\1\2"),
        ("Long", -1, b"\xff" * 8),
        ("Double", 1.5, b"\x3f\xf8" + bytes(6)),
        ("Float", 1.5, b"\x3f\xc0\0\0"),
    ],
)
@pytest.mark.parametrize("spelling", ["{}", "{}Serializer", f"{JAVA}{{}}Serializer"])
def test_those_that_apache_kafka_has(name: str, value: Any, data: bytes, spelling: str) -> None:
    serialize = serializer(spelling.format(name), "value.serializer")
    deserialize = deserializer(spelling.format(name).replace("Ser", "Deser"), "value.deserializer")
    assert serialize is not None
    assert deserialize is not None
    assert serialize("t", value) == data
    assert deserialize("t", data) == value
    assert serialize("t", None) is None
    assert deserialize("t", None) is None


@pytest.mark.parametrize("name", ["bytes", f"{JAVA}ByteArraySerializer", "ByteArray"])
def test_bytes_stay_as_they_are(name: str) -> None:
    assert serializer(name, "o") is None
    assert deserializer(name.replace("Ser", "Deser"), "o") is None


def test_ones_own() -> None:
    class Own:
        def serialize(self, topic: str, value: Any) -> bytes:
            return f"{topic}:{value}".encode()

        def deserialize(self, topic: str, data: Any) -> str:
            return f"{topic}:{data}"

    for given in (Own, Own()):
        serialize, deserialize = serializer(given, "o"), deserializer(given, "o")
        assert serialize is not None
        assert deserialize is not None
        assert serialize("t", 1) == b"t:1"
        assert deserialize("t", b"x") == "t:b'x'"
    upper = serializer(lambda text: text.upper().encode(), "o")
    assert upper is not None
    assert (upper("t", "a"), upper("t", None)) == (b"A", None)
    number = deserializer(int, "o")
    assert number is not None
    assert number("t", b"12") == 12


def test_what_is_none_of_these() -> None:
    for make in (serializer, deserializer):
        with pytest.raises(ConfigError, match=r"value\.thing"):
            make("Nonsense", "value.thing")
        with pytest.raises(ConfigError):
            make(7, "value.thing")
    wrong = deserializer("Long", "o")
    assert wrong is not None
    with pytest.raises(ValueError, match="3 bytes"):
        wrong("t", b"abc")
