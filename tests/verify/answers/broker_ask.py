"""Requests to compare a broker with Apache Kafka: how a line of the tables is written, sent and answered.

The form of the tables (`asks/`), the sending over one plain socket, and responses as plain values.  Allowed
differences are in `broker_answers.py`.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.batch.view import CRC_POSITION, BatchView, batch_crc, batches
from barnabas.protocol.apis import api_named
from barnabas.protocol.frame import read_response, write_request
from barnabas.protocol.schema import Field, Message
from tests.frames import FrameReader

CLIENT_ID = "judge"
ANSWER_TIMEOUT_S = 15
LOADING_PAUSE_S = 0.4
LOADING_TRIES = 20
CHANGING = (
    "CreateTopics",
    "CreatePartitions",
    "DeleteTopics",
    "AlterConfigs",
    "IncrementalAlterConfigs",
    "UpdateFeatures",
    "UnregisterBroker",
    "AlterClientQuotas",
    "AlterUserScramCredentials",
    "CreateAcls",
    "DeleteAcls",
)
# When the records of the tables were made: a fixed time, so that answers are equal to the byte.
T = 1_700_000_000_000

Plain = Any


@dataclass(frozen=True)
class Ask:
    """One request, sent once in each of the versions."""

    title: str
    api: str
    versions: tuple[int, ...]
    fields: dict[str, Any]
    # What it asks for may happen after the answer.
    settles: bool


@dataclass(frozen=True)
class Raw:
    """Bytes that are no request a client would send; `api` reads the answer, if one is expected."""

    title: str
    frame: bytes
    api: str | None = None
    version: int = 0


@dataclass(frozen=True)
class TopicId:
    """Stands in a request for the id of the topic with this name."""

    name: str


@dataclass(frozen=True)
class Said:
    """Stands in a request for what an earlier answer said, as `("open a session v7", "session_id")`."""

    title: str
    field: str


def ask(title: str, name: str, versions: str, /, *, settles: bool | None = None, **fields: Any) -> Ask:
    """`versions` as `"0 4 13"`."""
    settles = name in CHANGING if settles is None else settles
    return Ask(title, name, tuple(map(int, versions.split())), fields, settles)


# Records ---------------------------------------------------------------------------------------------------


def batch(
    *values: str | None, keys: Iterable[str | None] = (), times: Iterable[int] = (), **options: Any
) -> bytes:
    """A batch of records with these values; times go up from T by one."""
    all_keys = [*keys, *[None] * len(values)]
    all_times = [*times, *range(T + len(list(times)), T + len(values))]
    records = [
        Record(n, all_times[n], encoded(all_keys[n]), encoded(value), ()) for n, value in enumerate(values)
    ]
    return bytes(build(records, **options))


def encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def patched(source: bytes, position: int, form: str, value: int, *, crc: bool = True) -> bytes:
    """The batch with one of its fields replaced; its checksum is corrected by default."""
    copy = bytearray(source)
    struct.pack_into(">" + form, copy, position, value)
    if crc:
        struct.pack_into(">I", copy, CRC_POSITION, batch_crc(copy, 0, len(copy)))
    return bytes(copy)


# Sending ---------------------------------------------------------------------------------------------------


@dataclass
class RawClient:
    """A client of one broker; a connection that the broker closes is reopened for the next request."""

    port: int
    # How long after its answer a change may still be under way.
    settles_s: float
    host: str = "localhost"
    client_id: str = CLIENT_ID
    answers: dict[str, Plain] = field(default_factory=dict)
    topic_ids: dict[str, Uuid] = field(default_factory=dict)
    topic_names: dict[str, str] = field(default_factory=dict)
    _connection: socket.socket | None = None
    _correlation_id: int = 0

    def run(self, asks: Iterable[Ask | Raw]) -> dict[str, Plain]:
        """Send them all, in order; title and version -> answer."""
        for one in asks:
            if isinstance(one, Raw):
                self._keep(one.title, self._send_raw(one))
                continue
            for version in one.versions:
                self._keep(f"{one.title} v{version}", self._send_until_ready(one, version))
                if one.settles:
                    time.sleep(self.settles_s)
        self.close()
        return self.answers

    def one(self, name: str, version: int, /, **fields: Any) -> Plain:
        """A single request that is in no table."""
        return self._send_until_ready(ask(name, name, str(version), **fields), version)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _keep(self, title: str, answer: Plain) -> None:
        assert title not in self.answers, f"two requests are titled {title!r}"
        self.answers[title] = answer

    def _send_until_ready(self, one: Ask, version: int) -> Plain:
        """The first producer id makes Apache Kafka's broker ask the controller; clients ask again meanwhile."""
        for _ in range(LOADING_TRIES):
            answer = self._send(one, version)
            if (
                not isinstance(answer, dict)
                or answer.get("error_code") != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            ):
                break
            time.sleep(LOADING_PAUSE_S)
        return answer

    def _send(self, one: Ask, version: int) -> Plain:
        self._correlation_id += 1
        known = api_named(one.api)
        message = made(known.request, self._filled(one.fields))
        frame = self._exchange(
            write_request(message, version, self._correlation_id, self.client_id),
            answered=one.fields.get("acks") != 0,
        )
        if isinstance(frame, str):
            return frame
        correlation_id, response = read_response(frame, known, version)
        assert correlation_id == self._correlation_id, (one.title, version)
        self._learn_topic_ids(response)
        return plain(response, version)

    def _send_raw(self, one: Raw) -> Plain:
        frame = self._exchange(one.frame, answered=True)
        if isinstance(frame, str) or one.api is None:
            return frame if isinstance(frame, str) else frame.hex()
        return plain(read_response(frame, api_named(one.api), one.version)[1], one.version)

    def _exchange(self, request: bytes, *, answered: bool) -> bytes | str:
        if self._connection is None:
            self._connection = socket.create_connection((self.host, self.port), timeout=ANSWER_TIMEOUT_S)
        reader = FrameReader()
        try:
            self._connection.sendall(request)
            if not answered:
                return self._silence()
            while data := self._connection.recv(1 << 20):
                if frames := reader.feed(data):
                    assert len(frames) == 1 and not reader.pending, "one request, several answers"
                    return frames[0]
        except ConnectionError:
            pass
        except TimeoutError:
            self.close()
            return "(no answer)"
        self.close()
        return "(the connection is closed)"

    def _silence(self) -> str:
        """What follows on a request that has no answer: nothing, for a while."""
        assert self._connection is not None
        self._connection.settimeout(1)
        try:
            data = self._connection.recv(1)
        except TimeoutError:
            self._connection.settimeout(ANSWER_TIMEOUT_S)
            return "(no answer)"
        assert not data, "an answer to a request that has none"
        self.close()
        return "(the connection is closed)"

    def _filled(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: self._filled(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._filled(one) for one in value]
        if isinstance(value, TopicId):
            return self.topic_ids[value.name]
        if isinstance(value, Said):
            return self.answers[value.title][value.field]
        return value

    def _learn_topic_ids(self, response: Message) -> None:
        for topic in getattr(response, "topics", ()):
            if getattr(topic, "topic_id", ZERO_UUID) != ZERO_UUID and topic.name:
                self.topic_ids[topic.name] = topic.topic_id
                self.topic_names[str(topic.topic_id)] = topic.name


# Messages from plain values and back ------------------------------------------------------------------------


def made(cls: type[Message], fields: Mapping[str, Any]) -> Any:
    """A message with these fields; the others have their defaults."""
    message = cls.schema.new()
    known = {one.attribute: one for one in cls.schema.fields}
    for name, value in fields.items():
        setattr(message, name, _made_value(known[name], value))
    return message


def _made_value(known: Field, value: Any) -> Any:
    if known.struct is None or value is None:
        return value
    struct_class = known.struct
    return [made(struct_class, one) for one in value] if known.is_array else made(struct_class, value)


def plain(message: Message, version: int) -> dict[str, Plain]:
    """Every field that this version has, records read."""
    return {
        known.attribute: _plain_value(known, getattr(message, known.attribute), version)
        for known in message.schema.fields
        if version in known.versions
    }


def _plain_value(known: Field, value: Any, version: int) -> Plain:
    if isinstance(value, Message):
        return plain(value, version)
    if isinstance(value, list):
        return [_plain_value(known, one, version) for one in value]
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex() if known.kind == "bytes" else plain_batches(value)
    return value


def plain_batches(buffer: bytes | bytearray | memoryview) -> list[Plain]:
    """Record batches, and what is left of one that was cut off."""
    found: list[Plain] = []
    size = 0
    for one in batches(buffer):
        size += one.size
        found.append(
            {
                "base_offset": one.base_offset,
                "leader_epoch": one.leader_epoch,
                "attributes": one.attributes,
                "last_offset_delta": one.last_offset_delta,
                "base_timestamp": one.base_timestamp,
                "max_timestamp": one.max_timestamp,
                "producer_id": one.producer_id,
                "producer_epoch": one.producer_epoch,
                "base_sequence": one.base_sequence,
                "crc_ok": one.crc_ok(),
                "records": _plain_records(one),
            }
        )
    if size < len(buffer):
        found.append({"cut off, bytes": len(buffer) - size})
    return found


def _plain_records(one: BatchView) -> Plain:
    """Apache Kafka takes batches of records that cannot be read, if its producer says so."""
    try:
        return [
            {
                "offset": r.offset,
                "timestamp": r.timestamp,
                "key": r.key,
                "value": r.value,
                "headers": list(r.headers),
            }
            for r in one.records()
        ]
    except KafkaError:
        return one.copy().hex()


def raw_request(key: int, version: int, body: bytes = b"", *, flexible: bool = False) -> bytes:
    """A frame with a header that may make no sense."""
    header = struct.pack(">hhih", key, version, 99, len(CLIENT_ID)) + CLIENT_ID.encode()
    content = header + (b"\0" if flexible else b"") + body
    return struct.pack(">i", len(content)) + content
