"""What storage says when it will not go on: one line that names the place, the fault and the way out.

What lives here: the exceptions of files and folders that no client ever sees.  What may not: refusals that
cross the wire, which are `base.errors.KafkaError`.
"""

from __future__ import annotations


class StorageRefused(Exception):
    """A file or folder that we do not take; the message is complete and fit for a user's eyes."""


class DamagedFile(StorageRefused):
    """The content of a file is not what its format allows."""

    def __init__(self, path: str, fault: str, line: int | None = None) -> None:
        self.path = path
        self.line = line
        where = path if line is None else f"{path}, line {line}"
        super().__init__(f"{where}: {fault}")


class FolderRefused(StorageRefused):
    """A log directory that cannot serve: in use, of another cluster or node, unformatted, unreadable."""

    def __init__(self, folder: str, fault: str) -> None:
        self.folder = folder
        super().__init__(f"{folder}: {fault}")
