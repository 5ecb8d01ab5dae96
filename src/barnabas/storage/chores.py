"""What a log leaves for later or for another thread: bringing files to stable storage, removing files.

What lives here: a flush and a deletion as objects that know all they need.  What may not: when they are run;
the manager decides that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from barnabas.runtime.disk import Disk, File
from barnabas.storage.failure import failing


class FlushPlan:
    """What has to be synced so that the log is safe up to `up_to`.

    Made on the log's thread, `run` on any thread while appends go on, then handed to `Log.flushed`.  It has
    handles of its own, so nothing that happens to the log meanwhile gets in its way.
    """

    __slots__ = ("_disk", "_files", "_folders", "_log_folder", "cuts", "up_to")

    def __init__(
        self,
        disk: Disk,
        log_folder: str,
        up_to: int,
        cuts: int,
        files: Sequence[File],
        folders: Sequence[str],
    ) -> None:
        self.up_to = up_to
        # How often the log had been truncated: a plan from before a truncation proves nothing after it.
        self.cuts = cuts
        self._disk = disk
        self._log_folder = log_folder
        self._files = files
        self._folders = folders

    def run(self) -> None:
        """StorageFailure when something cannot be synced: the directory is then not to be trusted."""
        with failing(self._log_folder, "flushing"):
            try:
                for file in self._files:
                    file.sync()
            finally:
                for file in self._files:
                    file.close()
            for folder in self._folders:
                with contextlib.suppress(FileNotFoundError):  # renamed for deletion meanwhile
                    self._disk.sync_folder(folder)


class DeleteJob:
    """Files renamed `.deleted`, to be removed when `due_ms` of the monotonic clock has come."""

    __slots__ = ("_disk", "_folder", "due_ms", "names")

    def __init__(self, disk: Disk, folder: Callable[[], str], names: Sequence[str], due_ms: int) -> None:
        self.due_ms = due_ms
        self.names = names
        self._disk = disk
        # Asked when the time has come: the folder may have been renamed.
        self._folder = folder

    def run(self) -> None:
        """Fine if they are gone already."""
        folder = self._folder()
        for name in self.names:
            self._disk.remove(f"{folder}/{name}")
