"""Avro with a registry: ids, subjects, evolved schemas, and registries that refuse or do not answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.client.serialization import Avro, SchemaRegistry
from barnabas.client.serialization.avro import RegistryError
from tests.registry import Registry, registry_running
from tools.ports import free_ports

pytest.importorskip("fastavro")
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "item", "type": "string"}, {"name": "count", "type": "int"}],
}
NEWER = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": "none"}]}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with registry_running() as registry:
        yield registry


def test_there_and_back(registry: Registry) -> None:
    place = SchemaRegistry(f"http://me:p%40ss@{registry.place}/")
    orders = Avro(ORDER, registry=place)
    data = orders.serialize("orders", {"item": "pears", "count": 2})
    assert data == b"\0\0\0\0\1" + b"\x0apears\x04"
    assert orders.deserialize("orders", data) == {"item": "pears", "count": 2}
    orders.serialize("orders", {"item": "figs", "count": 1})
    assert registry.requests == ["/subjects/orders-value/versions", "/schemas/ids/1"], "each is asked once"
    assert registry.credentials == "Basic bWU6cEBzcw=="
    keys = Avro('"long"', registry=place, is_key=True)
    assert keys.serialize("a/b", 1) == b"\0\0\0\0\2\x02"
    assert registry.requests[-1] == "/subjects/a%2Fb-key/versions"
    assert orders.serialize("orders", None) is None
    assert orders.deserialize("orders", None) is None


def test_a_reader_with_a_newer_schema(registry: Registry) -> None:
    place = SchemaRegistry(f"http://{registry.place}")
    data = Avro(ORDER, registry=place).serialize("orders", {"item": "pears", "count": 2})
    assert Avro(NEWER, registry=place).deserialize("orders", data)["note"] == "none"
    assert Avro(registry=place).deserialize("orders", data) == {"item": "pears", "count": 2}


def test_registered_schemas_only(registry: Registry) -> None:
    place = SchemaRegistry(f"http://{registry.place}")
    strict = Avro(ORDER, registry=place, register=False)
    with pytest.raises(RegistryError, match="HTTP 404: Subject 'orders-value' not found"):
        strict.serialize("orders", {"item": "pears", "count": 2})
    Avro(ORDER, registry=place).serialize("orders", {"item": "pears", "count": 2})
    assert strict.serialize("orders", {"item": "pears", "count": 2}) is not None


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (b"", ValueError, "do not start with the id"),
        (b"\1\0\0\0\1x", ValueError, "do not start with the id"),
        (b"\0\0\0\0\1\x0apears\x04!", ValueError, "1 bytes follow"),
        (b"\0\0\0\0\1\x0a", EOFError, None),
        (b"\0\0\0\0\7", RegistryError, "HTTP 404: Schema not found"),
        (b"\0\0\0\0\x62", RegistryError, "PROTOBUF, not Avro"),
        (b"\0\0\0\0\x63", RegistryError, "not JSON"),
    ],
)
def test_what_cannot_be_read(
    registry: Registry, data: bytes, error: type[Exception], words: str | None
) -> None:
    orders = Avro(ORDER, registry=SchemaRegistry(f"http://{registry.place}"))
    orders.serialize("orders", {"item": "pears", "count": 2})
    with pytest.raises(error, match=words):
        orders.deserialize("orders", data)


def test_a_registry_that_is_not_there() -> None:
    (port,) = free_ports(1)
    with pytest.raises(RegistryError, match="does not answer"):
        Avro(ORDER, registry=SchemaRegistry(f"http://127.0.0.1:{port}")).serialize("t", {})
    for address in ("file:///etc/passwd", "localhost:8081", "http://"):
        with pytest.raises(ValueError, match="write http://HOST:PORT"):
            SchemaRegistry(address)


def test_without_a_schema_nothing_is_written(registry: Registry) -> None:
    with pytest.raises(TypeError, match="a schema is needed"):
        Avro(registry=SchemaRegistry(f"http://{registry.place}")).serialize("t", 1)
