"""Hostile frames, one for each seed: requests of every API and version, mutated in several ways.

Contains how the bytes are made.  Sending them belongs in tools/fuzz.py and in tests, as does checking the
result.

The same seed and the same routes give the same bytes, so a harmful frame is identified by its seed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from barnabas.broker.network.routes import Route
from barnabas.protocol.frame import write_request
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.random import Random, SeededRandom
from barnabas.testing.hostile.mutated_frames import mutated, sample

# Complete requests of each API and version that frames are made from.
SAMPLES_PER_VERSION = 4
# A frame that may be served requests no more partitions than this, so that it does not fill the disk.
MAX_PARTITIONS = 4
# UnregisterBroker would take the broker itself out of service.
EXCLUDED = frozenset({64})
MAX_RANDOM_BYTES = 2_000

_SIZE = struct.Struct(">i")
_CORRELATION_ID = struct.Struct(">i")
_CORRELATION_POSITION = 8
# Size, key, version, correlation id.
_HEADER_BYTES = 12
# What lengths and counts may claim: fixed ones, and varints, some with too many bytes.
_LIES = (
    *(struct.pack(">i", count) for count in (2**31 - 1, 2**28, -1, -2, -(2**31), 10**8, 0, 1)),
    *(struct.pack(">h", count) for count in (2**15 - 1, -1, -2, -(2**15))),
    *(bytes.fromhex(text) for text in ("ffffffff0f", "8080808010", "ffffffffff", "ff" * 10, "80" * 12, "00")),
)


class Kind(Enum):
    """How a request is mutated."""

    WHOLE = "whole"
    MUTATED = "mutated"
    CUT = "cut"
    LYING_SIZE = "lying size"
    LYING_COUNT = "lying count"
    RANDOM_BODY = "random body"
    OTHER_BODY = "other body"
    SWAPPED = "swapped"
    RANDOM = "random"


class Hostile(NamedTuple):
    """Bytes to send unchanged, preceded by their size."""

    kind: Kind
    data: bytes


class FrameMaker:
    """Makes the frames for one listener's routes."""

    def __init__(self, routes: Iterable[Route]) -> None:
        random = SeededRandom(0)
        self._whole = [
            write_request(_harmless(sample(route.api.request, random, version)), version, 0, "fuzz")
            for route in routes
            if route.api.key not in EXCLUDED
            for version in range(route.lowest, route.highest + 1)
            for _ in range(SAMPLES_PER_VERSION)
        ]
        self._ways: dict[Kind, Callable[[bytearray, Random], bytes]] = {
            Kind.WHOLE: lambda frame, _: bytes(frame),
            Kind.MUTATED: self._mutated,
            Kind.CUT: self._cut,
            Kind.LYING_SIZE: self._lying_size,
            Kind.LYING_COUNT: self._lying_count,
            Kind.RANDOM_BODY: self._random_body,
            Kind.OTHER_BODY: self._other_body,
            Kind.SWAPPED: self._swapped,
            Kind.RANDOM: lambda _, random: random.bytes(random.integer(1, MAX_RANDOM_BYTES)),
        }

    def make(self, seed: int) -> Hostile:
        """The frame of this seed.  Its correlation id is the seed, unless that was mutated."""
        random = SeededRandom(seed)
        kind = list(self._ways)[random.integer(0, len(self._ways) - 1)]
        frame = self._any(random)
        _CORRELATION_ID.pack_into(frame, _CORRELATION_POSITION, seed & 0x7FFFFFFF)
        return Hostile(kind, self._ways[kind](frame, random))

    def _any(self, random: Random) -> bytearray:
        return bytearray(self._whole[random.integer(0, len(self._whole) - 1)])

    @staticmethod
    def _mutated(frame: bytearray, random: Random) -> bytes:
        return _sized(mutated(bytes(frame[_SIZE.size :]), random))

    @staticmethod
    def _cut(frame: bytearray, random: Random) -> bytes:
        return _sized(bytes(frame[_SIZE.size : random.integer(_SIZE.size, len(frame) - 1)]))

    @staticmethod
    def _lying_size(frame: bytearray, random: Random) -> bytes:
        """More or less than follows: then the end never arrives, or is read as the next request."""
        sizes = (2**31 - 1, -1, 0, 1, len(frame), len(frame) - 5, 100 * 1024 * 1024 + 1, -(2**31))
        size = sizes[random.integer(0, len(sizes) - 1)]
        _SIZE.pack_into(frame, 0, size)
        return bytes(frame)

    @staticmethod
    def _lying_count(frame: bytearray, random: Random) -> bytes:
        lie = _LIES[random.integer(0, len(_LIES) - 1)]
        position = random.integer(_HEADER_BYTES, len(frame))
        frame[position : position + len(lie)] = lie
        return _sized(bytes(frame[_SIZE.size :]))

    @staticmethod
    def _random_body(frame: bytearray, random: Random) -> bytes:
        header = bytes(frame[_SIZE.size : min(len(frame), _HEADER_BYTES + 2 + len("fuzz") + 1)])
        return _sized(header + random.bytes(random.integer(0, MAX_RANDOM_BYTES)))

    def _other_body(self, frame: bytearray, random: Random) -> bytes:
        """The header of one request before the message of another."""
        other = self._any(random)
        return _sized(bytes(frame[_SIZE.size : _HEADER_BYTES]) + bytes(other[_HEADER_BYTES:]))

    @staticmethod
    def _swapped(frame: bytearray, random: Random) -> bytes:
        """Two parts of the message swapped."""
        cuts = sorted(random.integer(_HEADER_BYTES, len(frame)) for _ in range(3))
        first, second = frame[cuts[0] : cuts[1]], frame[cuts[1] : cuts[2]]
        return _sized(bytes(frame[_SIZE.size : cuts[0]] + second + first + frame[cuts[2] :]))


def _sized(frame: bytes) -> bytes:
    return _SIZE.pack(len(frame)) + frame


def _harmless(request: Message) -> Message:
    """Limits requests that succeed: no more partitions than a disk can hold a million times."""
    if isinstance(request, CreateTopicsRequest):
        for topic in request.topics:
            topic.num_partitions = min(topic.num_partitions, MAX_PARTITIONS)
    elif isinstance(request, CreatePartitionsRequest):
        for grown in request.topics:
            grown.count = min(grown.count, MAX_PARTITIONS)
    return request
