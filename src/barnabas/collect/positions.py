"""Saved positions: a small JSON file, replaced atomically.

A file is identified by device and inode, as its name changes when logs are rotated.  Inodes are reused, so
its first bytes must match as well.
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
    """The acknowledged position of one file."""

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
    """Return length and digest of a file's first bytes."""
    data = os.pread(descriptor, min(length, HEAD_BYTES), 0)
    return len(data), hashlib.blake2b(data, digest_size=16).hexdigest()


class PositionsFile:
    """The saved positions of one collector, for its exclusive use."""

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def is_there(self) -> bool:
        """Whether a collector has used it before."""
        return os.path.exists(self.path)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Lock the file; raises ValueError if another collector has it."""
        os.makedirs(os.path.dirname(os.path.abspath(self.path)), exist_ok=True)
        # A separate lock file, as the positions file is replaced with every save.
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(
                    f"another collector uses {self.path}: stop it, or name another file"
                ) from None
            yield
        finally:
            os.close(lock)

    def load(self) -> list[Position]:
        """Return the saved positions; none if there is no file yet.  Raises ValueError if it is invalid."""
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
                "name another file, or remove it to read all files from their start"
            ) from error

    def save(self, positions: Iterable[Position]) -> None:
        """Replace the saved positions; after a crash the file is the old one or the new one, never
        partial."""
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
