"""Where to go on after a restart: a small JSON file, replaced as a whole.

What lives here: the file's format, and how a file that was read before is known again.  What may not:
reading logs.

A file is known by device and inode, as its name changes when logs are rotated.  Inodes are used again, so
the first bytes must be the same, too.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

FORMAT = 1
HEAD_BYTES = 256
MAX_STATE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Position:
    """How far one file was written to its topic."""

    path: str
    device: int
    inode: int
    offset: int
    head_length: int
    head: str

    @property
    def identity(self) -> tuple[int, int]:
        return self.device, self.inode


def head_of(descriptor: int, length: int = HEAD_BYTES) -> tuple[int, str]:
    """Length and digest of a file's first bytes."""
    data = os.pread(descriptor, min(length, HEAD_BYTES), 0)
    return len(data), hashlib.blake2b(data, digest_size=16).hexdigest()


class PositionsFile:
    """The saved positions of one collector; only one collector may have them."""

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def is_there(self) -> bool:
        """Whether a collector had it before."""
        return os.path.exists(self.path)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Nobody else has it meanwhile; ValueError if another collector has it now."""
        os.makedirs(os.path.dirname(os.path.abspath(self.path)), exist_ok=True)
        # A file of its own, as the one with the positions is replaced with every save.
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(
                    f"another collector runs with {self.path}: stop that one, or give another file"
                ) from None
            yield
        finally:
            os.close(lock)

    def load(self) -> list[Position]:
        """What was saved; nothing if there is no file yet.  ValueError if it is not one of ours."""
        try:
            with Path(self.path).open("rb") as file:
                data = file.read(MAX_STATE_BYTES + 1)
        except FileNotFoundError:
            return []
        try:
            if len(data) > MAX_STATE_BYTES:
                raise ValueError("too large")
            content = json.loads(data)
            if content["format"] != FORMAT:
                raise ValueError(f"format {content['format']}")
            return [_position(entry) for entry in content["files"]]
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"{self.path} does not hold a collector's positions ({error}): "
                "give another file, or remove it to read all files from their start"
            ) from error

    def save(self, positions: Iterable[Position]) -> None:
        """Replace what was saved; after a crash the file is the old one or the new one, never a part."""
        content = {"format": FORMAT, "files": [asdict(position) for position in positions]}
        data = json.dumps(content, indent=1).encode()
        folder = os.path.dirname(os.path.abspath(self.path))
        os.makedirs(folder, exist_ok=True)
        new = f"{self.path}.new"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(new, self.path)
        holder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(holder)
        finally:
            os.close(holder)


def _position(entry: dict[str, object]) -> Position:
    def number(name: str) -> int:
        found = entry[name]
        if not isinstance(found, int) or found < 0:
            raise ValueError(f"{name} {found!r}")
        return found

    def text(name: str) -> str:
        found = entry[name]
        if not isinstance(found, str):
            raise ValueError(f"{name} {found!r}")
        return found

    return Position(
        text("path"), number("device"), number("inode"), number("offset"), number("head_length"), text("head")
    )
