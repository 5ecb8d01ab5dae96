"""Formats and parses the names of a log's files and folder, as Apache Kafka does."""

from __future__ import annotations

from barnabas.runtime.random import Random, random_uuid

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
INDEXES = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)
SEGMENT_FILES = (LOG, *INDEXES)

# Suffixes of files that are being added or removed.
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
# A deleted metadata snapshot belongs to the Raft log, which removes it itself.
RAFT_SNAPSHOT_DELETED = ".checkpoint.deleted"

LEADER_EPOCHS = "leader-epoch-checkpoint"

# Suffixes of folders that are being added or removed, after a dot and 32 hexadecimal digits.
DELETE_FOLDER = "-delete"
FUTURE_FOLDER = "-future"
STRAY_FOLDER = "-stray"
FOLDER_SUFFIXES = (DELETE_FOLDER, FUTURE_FOLDER, STRAY_FOLDER)

OFFSET_DIGITS = 20
FOLDER_NAME_LIMIT = 255


def of_offset(offset: int, kind: str, suffix: str = "") -> str:
    """A file name such as `00000000000000000042.log`."""
    return f"{offset:0{OFFSET_DIGITS}d}{kind}{suffix}"


def offset_in(name: str) -> int | None:
    """The offset that a file name starts with, up to its first dot; None for any other file."""
    digits, dot, _ = name.partition(".")
    if not dot or not digits.isascii() or not digits.isdigit():
        return None
    return int(digits)


def folder(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def folder_on_the_way(topic: str, partition: int, suffix: str, random: Random) -> str:
    """`topic-partition.<32 hex>-delete` (or -future, -stray); a long topic is cut to fit the file system."""
    tail = f"-{partition}.{random_uuid(random).hex()}{suffix}"
    if suffix == FUTURE_FOLDER:
        return topic + tail  # never cut: the topic must be recoverable from the name
    return topic[: FOLDER_NAME_LIMIT - len(tail)] + tail


def parse_folder(name: str) -> tuple[str, int]:
    """Topic and partition of a log's folder with any suffix.  Raises ValueError for any other name."""
    plain = name
    if name.endswith(FOLDER_SUFFIXES):
        plain, dot, unique = name.rpartition(".")
        if not dot or not unique.partition("-")[0]:
            plain = ""
    topic, _, partition = plain.rpartition("-")
    if not topic or not partition.isascii() or not partition.isdigit():
        raise ValueError(
            f"the folder {name!r} is not of the form topic-partition, nor topic-partition.<id>-delete,"
            " -future or -stray; a log directory may hold only such folders: move it elsewhere"
        )
    return topic, int(partition)
