"""Checkpoint files: a version line, a count line, one entry per line, written atomically.

Contains the common format (`CheckpointFile`) and that of partition offsets; the log tasks schedule the
writes.

    0                  version
    2                  number of entries
    orders 0 17        topic partition offset
    orders 1 4
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.latest import LatestWrite
from barnabas.storage.failure import refusing
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.refused import DamagedFile

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
GAP_CHECKPOINT = "gap-offset-checkpoint"

OFFSET_CHECKPOINT_VERSION = 0
# A line has at most 249 + 10 + 19 characters: room for some 900,000 partitions in one log directory.
MAX_CHECKPOINT_BYTES = 256 * 1024 * 1024

# Java's Integer.parseInt and Long.parseLong: a sign and ASCII digits, nothing else.
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
# Java's \s.
_WHITESPACE = re.compile(r"[ \t\n\x0b\f\r]+")
# The ends of a line for Java's BufferedReader.
_LINE_END = re.compile(r"\r\n|\n|\r")

Entry = TypeVar("Entry")


def parse_number(text: str, bits: int) -> int | None:
    """A signed number of that width as Java parses it, or None."""
    if not _NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << (bits - 1)) <= number < 1 << (bits - 1) else None


class CheckpointFile(Generic[Entry]):
    """One checkpoint file; `to_line` and `from_line` convert entries (None: the line is malformed)."""

    __slots__ = ("_disk", "_from_line", "_to_line", "path", "version")

    def __init__(
        self,
        disk: Disk,
        path: str,
        version: int,
        to_line: Callable[[Entry], str],
        from_line: Callable[[str], Entry | None],
    ) -> None:
        self.path = path
        self.version = version
        self._disk = disk
        self._to_line = to_line
        self._from_line = from_line

    def create(self) -> None:
        """Create an empty file on the first start, as Apache Kafka does."""
        if not self._disk.exists(self.path):
            self._disk.open(self.path, create=True).close()

    @property
    def is_written(self) -> bool:
        return self._disk.exists(self.path) and self._disk.size(self.path) > 0

    def read(self) -> list[Entry]:
        """All entries; none, as in Apache Kafka, if the file is missing, empty or ends with its version."""
        if not self._disk.exists(self.path):
            return []
        size = self._disk.size(self.path)
        if size > MAX_CHECKPOINT_BYTES:
            raise DamagedFile(self.path, f"has {size} bytes, a checkpoint has at most {MAX_CHECKPOINT_BYTES}")
        return self.decode(self._disk.read_bytes(self.path))

    def write(self, entries: Iterable[Entry], *, sync: bool = True) -> None:
        """Replace the content atomically."""
        self._disk.write_atomically(self.path, self.encode(entries), sync=sync)

    def encode(self, entries: Iterable[Entry]) -> bytes:
        lines = [self._to_line(entry) for entry in entries]
        return "\n".join([str(self.version), str(len(lines)), *lines, ""]).encode()

    def decode(self, data: bytes) -> list[Entry]:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            line = len(_LINE_END.split(data[: error.start].decode()))
            raise DamagedFile(self.path, "is not UTF-8 text", line) from error
        lines = _LINE_END.split(text)
        if lines[-1] == "":
            lines.pop()
        if not lines:
            return []
        version = parse_number(lines[0], 32)
        if version is None:
            raise DamagedFile(self.path, f"expected the version number, found {_shown(lines[0])}", 1)
        if version != self.version:
            raise DamagedFile(self.path, f"has version {version}, only version {self.version} is known", 1)
        if len(lines) == 1:
            return []
        count = parse_number(lines[1], 32)
        if count is None or count < 0:
            raise DamagedFile(self.path, f"expected the number of entries, found {_shown(lines[1])}", 2)
        if len(lines) - 2 != count:
            raise DamagedFile(self.path, f"announces {count} entries, {len(lines) - 2} follow", 2)
        return [self._entry(line, number) for number, line in enumerate(lines[2:], start=3)]

    def _entry(self, line: str, number: int) -> Entry:
        entry = self._from_line(line)
        if entry is None:
            raise DamagedFile(self.path, f"malformed entry {_shown(line)}", number)
        return entry


def _shown(line: str) -> str:
    return repr(line if len(line) <= 80 else line[:77] + "...")


class OffsetCheckpoint:
    """Offsets by partition in one of the checkpoints at the root of a log directory."""

    __slots__ = ("_file", "_latest")

    def __init__(self, disk: Disk, log_dir: str, name: str) -> None:
        self._latest = LatestWrite()
        self._file: CheckpointFile[tuple[TopicPartition, int]] = CheckpointFile(
            disk, f"{log_dir}/{name}", OFFSET_CHECKPOINT_VERSION, _offset_to_line, _offset_from_line
        )

    @property
    def path(self) -> str:
        return self._file.path

    def create(self) -> None:
        self._file.create()

    @property
    def is_written(self) -> bool:
        """Whether it was ever written, not only created empty."""
        return self._file.is_written

    def read(self) -> dict[TopicPartition, int]:
        return dict(self._file.read())

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.plan(offsets)()

    def plan(self, offsets: Mapping[TopicPartition, int]) -> Callable[[], None]:
        """The write as a call for a worker; one that runs late never overwrites a later planned write."""

        def write() -> None:
            folder, _, name = self.path.rpartition("/")
            with refusing(folder, f"writing {name}"):
                self._file.write(sorted(offsets.items()))

        return self._latest.plan(write)


# How many contents of a file are told apart.
MAX_POSSIBLE = 8


class TrackedCheckpoint(OffsetCheckpoint):
    """One that knows what its file may contain while writes wait for workers."""

    __slots__ = ("_possible",)

    def __init__(self, disk: Disk, log_dir: str, name: str) -> None:
        super().__init__(disk, log_dir, name)
        # By the number of the write; 0: as it was read.
        self._possible: dict[int, Mapping[TopicPartition, int]] = {}

    def read(self) -> dict[TopicPartition, int]:
        offsets = super().read()
        if self._latest.planned == 0:
            self._possible[0] = offsets
        return offsets

    def plan(self, offsets: Mapping[TopicPartition, int]) -> Callable[[], None]:
        if len(self._possible) >= MAX_POSSIBLE:
            self._merge()
        number = self._latest.planned + 1
        self._possible[number] = offsets
        write = super().plan(offsets)

        def replace() -> None:
            write()
            # If a later one was written first, that has removed this one.
            for earlier in [each for each in list(self._possible) if each < number]:
                self._possible.pop(earlier, None)

        return replace

    def _merge(self) -> None:
        """Writes that fail for lack of space, again and again, must not pile up."""
        possible, merged = self._possible, dict[TopicPartition, int]()
        for offsets in list(possible.values()):
            for partition, offset in offsets.items():
                merged[partition] = max(offset, merged.get(partition, 0))
        self._possible = {max(possible): merged}

    def may_exceed(self, partition: TopicPartition, offset: int) -> bool:
        """Whether a crash at any time could leave a larger offset of this partition in the file."""
        return any(offsets.get(partition, 0) > offset for offsets in list(self._possible.values()))


def _offset_to_line(entry: tuple[TopicPartition, int]) -> str:
    (topic, partition), offset = entry
    return f"{topic} {partition} {offset}"


def _offset_from_line(line: str) -> tuple[TopicPartition, int] | None:
    parts = _WHITESPACE.split(line)
    if len(parts) != 3:
        return None
    partition, offset = parse_number(parts[1], 32), parse_number(parts[2], 64)
    if partition is None or offset is None:
        return None
    return TopicPartition(parts[0], partition), offset
