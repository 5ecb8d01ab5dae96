"""`partition.metadata`: the topic id of a partition's folder, 43 bytes without a newline at the end."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence

from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.runtime.disk.disk import SYNCED_ONE_BY_ONE_MAX, Disk
from barnabas.storage.directories.checkpoints import parse_number
from barnabas.storage.failure import refusing
from barnabas.storage.refused import DamagedFile

PARTITION_METADATA_FILE = "partition.metadata"
CURRENT_VERSION = 0
MAX_METADATA_BYTES = 4096

_FIELD = re.compile(r":\s+")


def encode_partition_metadata(topic_id: Uuid) -> bytes:
    return f"version: {CURRENT_VERSION}\ntopic_id: {topic_id}".encode()


def decode_partition_metadata(path: str, data: bytes) -> Uuid:
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise DamagedFile(path, "is not UTF-8 text") from error
    version = parse_number(_value(path, lines, 0, "version"), 32)
    if version is None or version < CURRENT_VERSION:  # a later version is accepted, as in Apache Kafka
        raise DamagedFile(path, f"the version is not a number from {CURRENT_VERSION} on", 1)
    try:
        topic_id = Uuid.parse(_value(path, lines, 1, "topic_id"))
    except ValueError as error:
        raise DamagedFile(path, str(error), 2) from error
    if topic_id == ZERO_UUID:
        raise DamagedFile(path, "the topic id is the reserved id of zeroes", 2)
    return topic_id


def _value(path: str, lines: list[str], index: int, name: str) -> str:
    parts = _FIELD.split(lines[index]) if index < len(lines) else []
    if len(parts) != 2 or parts[0] != name:
        raise DamagedFile(path, f"expected '{name}: ...'", index + 1)
    return parts[1]


def write_partition_metadata(disk: Disk, folder: str, topic_id: Uuid) -> None:
    disk.write_atomically(f"{folder}/{PARTITION_METADATA_FILE}", encode_partition_metadata(topic_id))


def write_partition_metadata_of(disk: Disk, log_dir: str, topic_ids: Sequence[tuple[str, Uuid]]) -> None:
    """Write the files of many folders of one directory; folders removed meanwhile are skipped."""
    with refusing(log_dir, "writing topic ids"):
        _write_all(disk, log_dir, topic_ids)


def _write_all(disk: Disk, log_dir: str, topic_ids: Sequence[tuple[str, Uuid]]) -> None:
    if len(topic_ids) <= SYNCED_ONE_BY_ONE_MAX:
        for folder, topic_id in topic_ids:
            with contextlib.suppress(FileNotFoundError):
                write_partition_metadata(disk, folder, topic_id)
        return
    # As write_atomically does, each step for all of them.
    for folder, topic_id in topic_ids:
        path = f"{folder}/{PARTITION_METADATA_FILE}.tmp"
        with contextlib.suppress(FileNotFoundError):
            disk.remove(path)
            file = disk.open(path, create=True)
            try:
                file.append([encode_partition_metadata(topic_id)])
            finally:
                file.close()
    disk.sync_below(log_dir)
    for folder, _ in topic_ids:
        path = f"{folder}/{PARTITION_METADATA_FILE}"
        with contextlib.suppress(FileNotFoundError):
            disk.rename(f"{path}.tmp", path)
    disk.sync_below(log_dir)


def read_partition_metadata(disk: Disk, folder: str) -> Uuid | None:
    """The topic id; None in a folder without one (Apache Kafka before 2.8)."""
    path = f"{folder}/{PARTITION_METADATA_FILE}"
    if not disk.exists(path):
        return None
    if disk.size(path) > MAX_METADATA_BYTES:
        raise DamagedFile(path, f"has more than {MAX_METADATA_BYTES} bytes")
    return decode_partition_metadata(path, disk.read_bytes(path))
