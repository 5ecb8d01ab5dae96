"""What a log leaves for later or for another thread: bringing files to stable storage, removing files.

What lives here: a flush and a deletion as objects that know all they need.  What may not: when they are run;
the manager decides that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.runtime.disk import Disk, File


class FlushPlan:
    """What has to be synced so that the log is safe up to `up_to`.

    Made on the log's thread, `run` on any thread while appends go on, then handed to `Log.flushed`.  It has
    handles of its own, so nothing that happens to the log meanwhile gets in its way.
    """

    __slots__ = ("_disk", "_files", "_folder", "_sync_folder", "up_to")

    def __init__(self, disk: Disk, folder: str, up_to: int, files: Sequence[File], sync_folder: bool) -> None:
        self.up_to = up_to
        self._disk = disk
        self._folder = folder
        self._files = files
        self._sync_folder = sync_folder

    def run(self) -> None:
        """OSError when a file cannot be synced: the directory is then not to be trusted."""
        try:
            for file in self._files:
                file.sync()
        finally:
            for file in self._files:
                file.close()
        if self._sync_folder:
            try:
                self._disk.sync_folder(self._folder)
            except FileNotFoundError:
                return  # renamed for deletion meanwhile


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
