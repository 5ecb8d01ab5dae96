"""Exceptions for files and folders that storage cannot use: one line with the path, the fault and the remedy.

Clients never see these; errors that are sent in responses are `base.errors.KafkaError`.
"""

from __future__ import annotations


class StorageRefused(Exception):
    """A file or folder that cannot be used; the message is complete and meant for users."""


class DamagedFile(StorageRefused):
    """The content of a file violates its format."""

    def __init__(self, path: str, fault: str, line: int | None = None) -> None:
        self.path = path
        self.line = line
        where = path if line is None else f"{path}, line {line}"
        super().__init__(f"{where}: {fault}")


class FolderRefused(StorageRefused):
    """A log directory that cannot be used: locked, of another cluster or node, unformatted, unreadable."""

    def __init__(self, folder: str, fault: str) -> None:
        self.folder = folder
        super().__init__(f"{folder}: {fault}")
