"""Serializers and deserializers: Apache Kafka's, also by its class names, and user-defined ones."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from barnabas.config.errors import ConfigError

# From (topic, value) to bytes, and from (topic, bytes) to a value.
Serialize = Callable[[str, Any], bytes | None]
Deserialize = Callable[[str, bytes | None], Any]

_JAVA_PACKAGE = "org.apache.kafka.common.serialization."
_NUMBERS = {"Short": ">h", "Integer": ">i", "Long": ">q", "Float": ">f", "Double": ">d"}


def _number_serializer(form: str) -> Serialize:
    pack = struct.Struct(form).pack
    return lambda _, value: None if value is None else pack(value)


def _number_deserializer(form: str) -> Deserialize:
    packed = struct.Struct(form)

    def read(_: str, data: bytes | None) -> Any:
        if data is None:
            return None
        if len(data) != packed.size:
            raise ValueError(f"{len(data)} bytes are not a number of {packed.size} bytes")
        return packed.unpack(data)[0]

    return read


def _to_text(_: str, value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _from_text(_: str, data: bytes | None) -> str | None:
    return None if data is None else data.decode()


_SERIALIZERS: dict[str, Serialize] = {
    "String": _to_text,
    **{name: _number_serializer(form) for name, form in _NUMBERS.items()},
}
_DESERIALIZERS: dict[str, Deserialize] = {
    "String": _from_text,
    **{name: _number_deserializer(form) for name, form in _NUMBERS.items()},
}
# Pass-through: bytes are not converted.
_PLAIN = frozenset({"", "bytes", "ByteArray", "Bytes", "ByteBuffer", "Void"})


def _short_name(given: str, ending: str) -> str:
    """Normalize `org.apache.kafka.common.serialization.StringSerializer`, `StringSerializer`, `String`."""
    name = given.removeprefix("class ").removeprefix(_JAVA_PACKAGE).removesuffix(ending)
    return name if name in _SERIALIZERS or name in _PLAIN else name.capitalize()


def serializer(given: Any, option: str) -> Serialize | None:
    """Return the configured serializer; None if bytes are sent unchanged."""
    if isinstance(given, str):
        name = _short_name(given, "Serializer")
        if name in _PLAIN:
            return None
        if name in _SERIALIZERS:
            return _SERIALIZERS[name]
    elif isinstance(given, type) and hasattr(given, "serialize"):
        return serializer(given(), option)
    elif hasattr(given, "serialize"):
        serialize: Serialize = given.serialize
        return serialize
    elif callable(given):
        return lambda _, value: None if value is None else given(value)
    raise _refused(option, given, "serialize(topic, value)", _SERIALIZERS)


def deserializer(given: Any, option: str) -> Deserialize | None:
    """Return the configured deserializer; None if bytes are returned unchanged."""
    if isinstance(given, str):
        name = _short_name(given, "Deserializer")
        if name in _PLAIN:
            return None
        if name in _DESERIALIZERS:
            return _DESERIALIZERS[name]
    elif isinstance(given, type) and hasattr(given, "deserialize"):
        return deserializer(given(), option)
    elif hasattr(given, "deserialize"):
        deserialize: Deserialize = given.deserialize
        return deserialize
    elif callable(given):
        return lambda _, data: None if data is None else given(data)
    raise _refused(option, given, "deserialize(topic, data)", _DESERIALIZERS)


def _refused(option: str, given: object, method: str, known: dict[str, Any]) -> ConfigError:
    names = ", ".join(("bytes", *known))
    return ConfigError(
        f"Invalid value {given} for configuration {option}",
        allowed=f"a function, an object with {method}, or one of {names}",
    )
