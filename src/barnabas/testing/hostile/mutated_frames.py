"""Requests of every kind with mutated bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from barnabas.base.ids import Uuid
from barnabas.batch.build import build
from barnabas.batch.compression import Codec
from barnabas.batch.records import Record
from barnabas.broker.network.routes import Route
from barnabas.protocol.frame import write_request
from barnabas.protocol.schema import Message
from barnabas.runtime.random import Random, SeededRandom

T = TypeVar("T")

_STRINGS = ("alpha", "", "a/b", "PLAIN", "1", "__cluster_metadata", "x" * 300)
_NUMBERS = (0, 1, 2, 3, 4, 8, 16, 32, -1, 100, 500, 2**15 - 1, 2**31 - 1)
_LIMITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint16": 15, "uint32": 31}
_SIZES = (struct.Struct(">b"), struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q"))
_EXTREMES = (0, 1, -1, 127, -128)


def _choose(random: Random, options: Sequence[T]) -> T:
    return options[random.integer(0, len(options) - 1)]


def sample(message: type[Message], random: Random, version: int, depth: int = 0) -> Message:
    """A message with a value in every field."""
    made: Any = message.schema.new()
    for field in message.schema.fields:
        if version not in field.versions:
            continue
        if field.is_array:
            count = _choose(random, (0, 1, 1, 2)) if depth < 3 else 0
            value: Any = [_value(field, random, version, depth) for _ in range(count)]
        else:
            value = _value(field, random, version, depth)
        setattr(made, field.attribute, value)
    whole: Message = made
    return whole


def _value(field: Any, random: Random, version: int, depth: int) -> Any:
    if field.struct is not None:
        return sample(field.struct, random, version, depth + 1)
    kind = field.kind
    if kind in _LIMITS:
        return (
            min(_choose(random, _NUMBERS), 2 ** _LIMITS[kind] - 1)
            if kind[0] != "u"
            else _choose(random, (0, 1, 9))
        )
    if kind == "string":
        return _choose(random, _STRINGS)
    if kind == "record_data":
        return _records(random)
    plain = {
        "bool": random.fraction() < 0.5,
        "float64": 1.5,
        "bytes": b"abc",
        "uuid": Uuid(bytes(15) + b"\7"),
    }
    return plain[kind]


def _records(random: Random) -> bytes:
    records = [
        Record(number, 1_700_000_000_000, b"k", b"v" * random.integer(0, 199), ()) for number in range(3)
    ]
    return bytes(build(records, codec=_choose(random, list(Codec))))


def mutated(frame: bytes, random: Random) -> bytes:
    """The same frame with one to four changes; its size may be wrong too, or its end missing."""
    data = bytearray(frame)
    for _ in range(random.integer(1, 4)):
        position = random.integer(0, len(data) - 1)
        way = random.integer(0, 5)
        if way == 0:
            data[position] ^= 1 << random.integer(0, 7)
        elif way == 1:
            data[position] = random.integer(0, 255)
        elif way == 2:
            form = _choose(random, _SIZES)
            if position + form.size <= len(data):
                most = 1 << (8 * form.size - 1)
                form.pack_into(data, position, _choose(random, (*_EXTREMES, most - 1, -most)))
        elif way == 3 and len(data) > 20:
            del data[position : position + random.integer(1, 8)]
        elif way == 4:
            data[position:position] = random.bytes(random.integer(1, 8))
        else:
            data[position:position] = b"\xff" * random.integer(1, 10)
        if not data:
            data = bytearray(b"\0")
    return bytes(data)


def frames(routes: list[Route], seed: int, count: int) -> Iterator[bytes]:
    """Mutated requests without their sizes; a few are left unchanged."""
    random = SeededRandom(seed)
    whole: list[bytes] = []
    for route in routes:
        for version in range(route.lowest, route.highest + 1):
            for _ in range(3):
                request = sample(route.api.request, random, version)
                whole.append(write_request(request, version, 7, _choose(random, ("c", "", None)))[4:])
    for _ in range(count):
        frame = _choose(random, whole)
        yield frame if random.fraction() < 0.05 else mutated(frame, random)
