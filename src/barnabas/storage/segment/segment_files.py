"""The names of a segment's four files, which are renamed and removed together."""

from __future__ import annotations

import contextlib

from barnabas.runtime.disk.disk import Disk
from barnabas.storage.log import log_files


class SegmentFiles:
    """The log and the indexes of one base offset."""

    __slots__ = ("base_offset", "disk", "folder", "suffix")

    def __init__(self, disk: Disk, folder: str, base_offset: int, suffix: str) -> None:
        self.disk = disk
        self.folder = folder
        self.base_offset = base_offset
        self.suffix = suffix

    def path(self, kind: str) -> str:
        """The path of one of the files, e.g. `log_files.LOG`."""
        return f"{self.folder}/{log_files.of_offset(self.base_offset, kind, self.suffix)}"

    def remove(self) -> None:
        """Remove existing files of these names."""
        for kind in log_files.SEGMENT_FILES:
            self.disk.remove(self.path(kind))

    def change_suffix(self, suffix: str) -> None:
        """Rename all files to the suffix `.cleaned`, `.swap`, `.deleted` or none."""
        old = {kind: self.path(kind) for kind in log_files.SEGMENT_FILES}
        self.suffix = suffix
        for kind in log_files.SEGMENT_FILES:
            # Only the log file is sure to exist: an interrupted rename may have left indexes behind.
            with (
                contextlib.nullcontext() if kind == log_files.LOG else contextlib.suppress(FileNotFoundError)
            ):
                self.disk.rename(old[kind], self.path(kind))

    @property
    def modified_ms(self) -> int:
        return self.disk.modified_ms(self.path(log_files.LOG))

    def set_modified_ms(self, wall_ms: int) -> None:
        for kind in (log_files.LOG, log_files.OFFSET_INDEX, log_files.TIME_INDEX):
            self.disk.set_modified_ms(self.path(kind), wall_ms)
