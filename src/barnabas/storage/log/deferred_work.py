"""Work that a log defers or hands to another thread: syncing and deleting files.

Contains self-contained flush, sync and deletion objects; the log manager and the log tasks schedule them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from barnabas.runtime.disk.disk import Disk, File
from barnabas.storage.failure import StorageFailure, failing, refusing
from barnabas.storage.log.leader_epochs import EpochsWrite
from barnabas.storage.segment.segment import Segment

T_co = TypeVar("T_co", covariant=True)


class OpenFiles:
    """Separate handles of those of the files that exist, unaffected by renames and removals."""

    __slots__ = ("_files",)

    def __init__(self, disk: Disk, paths: Iterable[str]) -> None:
        self._files: list[File] = []
        try:
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    self._files.append(disk.open(path))
        except BaseException:
            self.close()
            raise

    def sync(self) -> None:
        """Sync the files and close the handles.  May run on any thread."""
        try:
            for file in list(self._files):
                file.sync()
        finally:
            self.close()

    def close(self) -> None:
        """Close the handles without a sync.  Each handle is closed once, whichever thread does it."""
        with contextlib.suppress(IndexError):
            while True:
                self._files.pop().close()


class PendingCall(Generic[T_co]):
    """A slow call that may run on any thread; its outcome is kept for `finish`."""

    __slots__ = ("_call", "_result", "error", "is_done")

    def __init__(self, call: Callable[[], T_co]) -> None:
        self.is_done = False
        self._call = call
        self._result: T_co | None = None
        self.error: Exception | None = None

    def run(self) -> None:
        self.error = None
        try:
            self._result = self._call()
        except Exception as error:
            self.error = error
        finally:
            self.is_done = True

    def finish(self) -> T_co:
        """Run the call if it has not run; return its result or raise its error."""
        if not self.is_done:
            self.run()
        if self.error is not None:
            raise self.error
        return self._result  # type: ignore[return-value]  # None is a valid result


class PendingSync:
    """A call that waits for the device and may run on any thread; its outcome is kept for `finish`."""

    __slots__ = ("_call", "_error", "is_done")

    def __init__(self, call: Callable[[], None]) -> None:
        self.is_done = False
        self._call = call
        self._error: OSError | StorageFailure | None = None

    def run(self) -> None:
        try:
            self._call()
        except (OSError, StorageFailure) as error:
            self._error = error
        finally:
            self.is_done = True

    def finish(self) -> None:
        """Run the call if it has not run.  Raises OSError or StorageFailure if it failed."""
        if not self.is_done:
            self.run()
        if self._error is not None:
            raise self._error


class SyncedRecords(NamedTuple):
    """The active segment and a file handle of its records."""

    segment: Segment
    file: File


class FlushPlan:
    """What must be synced so that the log is durable up to `up_to`.

    Created on the log's thread, `run` on any thread while appends continue, then passed to `Log.flushed` and
    closed.  It has its own handles, so concurrent changes of the log do not affect it.
    """

    __slots__ = (
        "_disk",
        "_files",
        "_folders",
        "_log_folder",
        "_records",
        "covers",
        "cuts",
        "epochs",
        "first_offset",
        "names_made",
        "up_to",
    )

    def __init__(
        self,
        disk: Disk,
        log_folder: str,
        up_to: int,
        cuts: int,
        files: OpenFiles,
        records: SyncedRecords | None,
        folders: Sequence[str],
        covers: frozenset[object],
        names_made: int,
        first_offset: int,
        epochs: EpochsWrite | None,
    ) -> None:
        self.up_to = up_to
        # The number of truncations and moves so far: a later one invalidates the plan.
        self.cuts = cuts
        # The pending files of the log that this plan syncs.
        self.covers = covers
        # The number of file creations whose directory entries this plan syncs.
        self.names_made = names_made
        # The first segment's offset: after this plan no earlier segment comes back.
        self.first_offset = first_offset
        # The leader epochs, if the file is out of date.
        self.epochs = epochs
        self._disk = disk
        self._log_folder = log_folder
        self._files = files
        # Those of the active segment, reused afterwards: opening them for each flush costs as much as
        # writing.
        self._records = records
        self._folders = folders

    def run(self) -> None:
        """Raises StorageFailure if a sync fails: the directory can then no longer be trusted.

        A sync that fails for lack of space is no exception: the system has dropped what it could not write.
        """
        with failing(self._log_folder, "flushing"):
            if self.epochs is not None:
                # First, because recovery restores only the epochs of batches after the recovery point.
                with (
                    refusing(self._log_folder, "writing the leader epochs"),
                    contextlib.suppress(FileNotFoundError),  # renamed for deletion meanwhile
                ):
                    self.epochs.run()
            self._files.sync()
            if self._records is not None:
                self._records.file.sync()
            for folder in self._folders:
                with contextlib.suppress(FileNotFoundError):  # renamed for deletion meanwhile
                    self._disk.sync_folder(folder)

    def take_records(self) -> SyncedRecords | None:
        """Return the open records for reuse by the next flush."""
        records, self._records = self._records, None
        return records

    def close(self) -> None:
        """Close the handles, whether or not the plan has run."""
        self._files.close()
        records = self.take_records()
        if records is not None:
            records.file.close()


def in_order(calls: Iterable[Callable[[], None]]) -> Callable[[], None]:
    """Combine several calls that wait for the device into one call for a worker."""
    waiting = list(calls)

    def run() -> None:
        for call in waiting:
            call()

    return run


class FileDeletion:
    """Files renamed `.deleted`, to be removed when the monotonic clock reaches `due_ms`."""

    __slots__ = ("_disk", "_folder", "due_ms", "names")

    def __init__(self, disk: Disk, folder: Callable[[], str], names: Sequence[str], due_ms: int) -> None:
        self.due_ms = due_ms
        self.names = names
        self._disk = disk
        # Called when the deletion is due: the folder may have been renamed by then.
        self._folder = folder

    def run(self) -> None:
        """Remove the files; a file that no longer exists is no error."""
        folder = self._folder()
        for name in self.names:
            self._disk.remove(f"{folder}/{name}")
