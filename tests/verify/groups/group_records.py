"""What `__consumer_offsets` says of a group, as plain values that do not depend on who wrote them when."""

from __future__ import annotations

from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.batch.view import batches
from barnabas.coordinator.entry import GROUP, Entry, decode
from barnabas.protocol.json_form import to_json
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from tests.verify.groups.group_talk import Talk
from tests.verify.groups.group_topics import Plain
from tools.raw_broker import RawConnection

TOPIC = "__consumer_offsets"
FETCH_VERSION = 12
MAX_BYTES = 1 << 20
# Drawn at random, or taken from a clock: a hash is of topic ids.
_OUR_OWN = {
    "metadataHash": "(hash)",
    "timestamp": "(time)",
    "commitTimestamp": "(time)",
    "currentStateTimestamp": "(time)",
    "version": "(offset)",
}
_UNORDERED = ("partitions", "topicPartitions", "assignedPartitions", "partitionsPendingRevocation")


def records_of(address: tuple[str, int], talk: Talk, group: str, partitions: int) -> list[Plain]:
    """All records of a group in the order of the log, tombstones too."""
    found = []
    with RawConnection(address) as connection:
        for partition in range(partitions):
            for entry in _entries(connection, partition):
                if talk.prefix + group in (getattr(entry.key, name, None) for name in ("group_id", "group")):
                    value = None if entry.value is None else to_json(entry.value, entry.value_version)
                    row = {
                        "kind": entry.key.schema.name,
                        "key": to_json(entry.key, 0),
                        "value version": None if value is None else entry.value_version,
                        "value": value,
                    }
                    found.append(_plain(row, talk))
    return found


def _entries(connection: RawConnection, partition: int) -> list[Entry]:
    entries: list[Entry] = []
    offset = 0
    while True:
        part = FetchRequest.Partition(partition=partition, fetch_offset=offset, partition_max_bytes=MAX_BYTES)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, topics=[FetchRequest.Topic(topic=TOPIC, partitions=[part])]
        )
        answer = connection.ask(request, FETCH_VERSION, FetchResponse).responses[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE
        data = bytes(answer.records or b"")  # type: ignore[arg-type]  # a client never sees slices
        if not data:
            return entries
        for batch in batches(data):
            for record in batch.records():
                entry = decode(record.key, record.value, GROUP)
                assert isinstance(entry, Entry), entry
                entries.append(entry)
            offset = batch.next_offset


def _plain(value: Any, talk: Talk) -> Any:
    if isinstance(value, dict):
        return {
            name: _OUR_OWN[name] if name in _OUR_OWN else _sorted(name, _plain(one, talk))
            for name, one in value.items()
        }
    if isinstance(value, list):
        return [_plain(one, talk) for one in value]
    return talk.plain(value) if isinstance(value, str) else value


def _sorted(name: str, value: Any) -> Any:
    return sorted(value, key=str) if name in _UNORDERED else value
