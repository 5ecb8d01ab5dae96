"""Formats of keys and values: each is a serializer and a deserializer.

    Producer(value_serializer=JSON)        Consumer(value_deserializer=JSON)

`STRING`, `SHORT`, `INTEGER`, `LONG`, `FLOAT`, `DOUBLE` are Apache Kafka's own; `JSON` takes what
the module json does, `Json(from_json=…, to_json=…)` objects of a program; `Avro` uses a schema registry.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.client.serialization.avro import Avro, SchemaRegistry
    from barnabas.client.serialization.formats import DOUBLE, FLOAT, INTEGER, LONG, SHORT, STRING, Format
    from barnabas.client.serialization.json_format import JSON, Json

__all__ = [
    "DOUBLE",
    "FLOAT",
    "INTEGER",
    "JSON",
    "LONG",
    "SHORT",
    "STRING",
    "Avro",
    "Format",
    "Json",
    "SchemaRegistry",
]

_MODULES = {"Avro": "avro", "SchemaRegistry": "avro", "JSON": "json_format", "Json": "json_format"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"barnabas.client.serialization has no {name}")
    return getattr(import_module(f"barnabas.client.serialization.{_MODULES.get(name, 'formats')}"), name)
