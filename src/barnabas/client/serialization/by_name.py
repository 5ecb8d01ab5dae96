"""Serializers and deserializers: Apache Kafka's, also by its class names, and user-defined ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.client.serialization.formats import DOUBLE, FLOAT, INTEGER, LONG, SHORT, STRING, Format
from barnabas.config.errors import ConfigError

# From (topic, value) to bytes, and from (topic, bytes) to a value.
Serialize = Callable[[str, Any], bytes | None]
Deserialize = Callable[[str, bytes | None], Any]

_JAVA_PACKAGE = "org.apache.kafka.common.serialization."
_FORMATS: dict[str, Format[Any]] = {
    "String": STRING,
    "Short": SHORT,
    "Integer": INTEGER,
    "Long": LONG,
    "Float": FLOAT,
    "Double": DOUBLE,
}
# Imported when it is named.
_JSON = "Json"
# Pass-through: bytes are not converted.
_PLAIN = frozenset({"", "bytes", "ByteArray", "Bytes", "ByteBuffer", "Void"})


def _short_name(given: str, ending: str) -> str:
    """Normalize `org.apache.kafka.common.serialization.StringSerializer`, `StringSerializer`, `String`."""
    name = given.removeprefix("class ").removeprefix(_JAVA_PACKAGE).removesuffix(ending)
    return name if name in _FORMATS or name in _PLAIN else name.capitalize()


def _format(name: str) -> Format[Any] | None:
    if name == _JSON:
        from barnabas.client.serialization.json_format import JSON

        return JSON
    return _FORMATS.get(name)


def serializer(given: Any, option: str) -> Serialize | None:
    """Return the configured serializer; None if bytes are sent unchanged."""
    if isinstance(given, str):
        name = _short_name(given, "Serializer")
        if name in _PLAIN:
            return None
        known = _format(name)
        if known is not None:
            return known.serialize
    elif isinstance(given, type) and hasattr(given, "serialize"):
        return serializer(given(), option)
    elif hasattr(given, "serialize"):
        serialize: Serialize = given.serialize
        return serialize
    elif callable(given):
        return lambda _, value: None if value is None else given(value)
    raise _refused(option, given, "serialize(topic, value)", _FORMATS)


def deserializer(given: Any, option: str) -> Deserialize | None:
    """Return the configured deserializer; None if bytes are returned unchanged."""
    if isinstance(given, str):
        name = _short_name(given, "Deserializer")
        if name in _PLAIN:
            return None
        known = _format(name)
        if known is not None:
            return known.deserialize
    elif isinstance(given, type) and hasattr(given, "deserialize"):
        return deserializer(given(), option)
    elif hasattr(given, "deserialize"):
        deserialize: Deserialize = given.deserialize
        return deserialize
    elif callable(given):
        return lambda _, data: None if data is None else given(data)
    raise _refused(option, given, "deserialize(topic, data)", _FORMATS)


def _refused(option: str, given: object, method: str, known: dict[str, Any]) -> ConfigError:
    names = ", ".join(("bytes", *known, _JSON))
    return ConfigError(
        f"Invalid value {given} for configuration {option}",
        allowed=f"a function, an object with {method}, or one of {names}",
    )
