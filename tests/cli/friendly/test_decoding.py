"""Keys and values that are not text: Avro with a registry, JSON, and Apache Kafka's numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from barnabas.cli.framework.exits import Exit
from barnabas.cli.friendly.records.decoding import shown
from barnabas.client.serialization import DOUBLE, LONG, Avro, SchemaRegistry
from barnabas.client.sync import Producer
from tests.cli.conftest import Call
from tests.registry import Registry, registry_running
from tools.ports import free_ports

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "item", "type": "string"}, {"name": "count", "type": ["null", "int"]}],
}
AS_AVRO = ("--key-format", "avro", "--value-format", "avro", "--schema-registry")


@pytest.fixture
def registry() -> Iterator[Registry]:
    pytest.importorskip("fastavro")
    with registry_running() as registry:
        yield registry


@pytest.fixture
def orders(registry: Registry, bootstrap: str, topic: str) -> str:
    place = SchemaRegistry(f"http://{registry.place}")
    with Producer(
        bootstrap_servers=bootstrap,
        key_serializer=Avro('"string"', registry=place, is_key=True),
        value_serializer=Avro(ORDER, registry=place),
    ) as producer:
        producer.send_and_wait(topic, {"item": "pears", "count": 2}, "a")
        producer.send_and_wait(topic, {"item": "Äpfel", "count": None}, "12")
        producer.send_and_wait(topic, None, "a")
    return topic


def test_avro(barnabas: Call, registry: Registry, orders: str) -> None:
    formats = (*AS_AVRO, f"http://{registry.place}")
    rows = json.loads(barnabas("consume", orders, "--json", *formats).out)
    assert [(row["key"], row["value"]) for row in rows] == [
        ("a", {"item": "pears", "count": 2}),
        ("12", {"item": "Äpfel", "count": None}),
        ("a", None),
    ]
    pears = '{"item":"pears","count":2}'
    assert barnabas("consume", orders, "--value-only", "-n", "1", *formats).out == f"{pears}\n"
    assert (
        barnabas("tail", orders, "--no-follow", "--key", "a", "-F", r"%k=%s\n", *formats).out
        == f"a={pears}\na=\n"
    )
    assert barnabas("consume", orders, "--grep", "Ä", "-F", "%o", *formats).out == "1"
    assert pears in barnabas("consume", orders, "-o", "wide", *formats).out


def test_what_is_no_avro(barnabas: Call, registry: Registry, bootstrap: str, orders: str) -> None:
    """The records before it are printed; the line names the record."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_and_wait(orders, b"text")
    read = barnabas("consume", orders, "-F", r"%o\n", *AS_AVRO, f"http://{registry.place}")
    assert (read.code, read.out) == (Exit.FAILED, "0\n1\n2\n")
    assert f"the record at offset 3 of {orders}-0 cannot be deserialized: the bytes do not start" in read.err
    assert read.err.count("\n") == 1


def test_a_registry_that_is_not_there(barnabas: Call, orders: str) -> None:
    (port,) = free_ports(1)
    read = barnabas("consume", orders, *AS_AVRO, f"http://127.0.0.1:{port}")
    assert (read.code, read.err.count("\n")) == (Exit.UNREACHABLE, 1)
    assert "check the address of the registry" in read.err


def test_numbers_and_json(barnabas: Call, bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, key_serializer=LONG, value_serializer=DOUBLE) as producer:
        producer.send_and_wait(topic, 0.5, 7)
        producer.send_and_wait(topic, float("nan"), -1)
    read = barnabas("consume", topic, "-o", "jsonl", "--key-format", "long", "--value-format", "double")
    assert [(row["key"], row["value"]) for row in map(json.loads, read.out.splitlines())] == [
        (7, 0.5),
        (-1, "nan"),
    ]
    wrong = barnabas("consume", topic, "--value-format", "json")
    assert (wrong.code, "cannot be deserialized" in wrong.err) == (Exit.FAILED, True)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [b"\x00\xff", (1, True)]}, {"a": ["\x00ÿ", [1, True]]}),
        (Decimal("1.50"), "1.50"),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05+00:00"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (float("inf"), "inf"),
        (None, None),
    ],
)
def test_what_json_has_for_a_value(value: object, expected: object) -> None:
    assert shown(value) == expected
    json.dumps(shown(value), allow_nan=False)
