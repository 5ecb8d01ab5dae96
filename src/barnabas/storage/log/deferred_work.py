"""What a log leaves for later or for another thread: bringing files to stable storage, removing files.

What lives here: a flush, a sync and a deletion as objects that know all they need.  What may not: when they
are run; the manager decides that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from barnabas.runtime.disk.disk import Disk, File
from barnabas.storage.failure import StorageFailure, failing
from barnabas.storage.log.leader_epochs import EpochsWrite
from barnabas.storage.segment.segment import Segment

T_co = TypeVar("T_co", covariant=True)


class OpenFiles:
    """Handles of one's own, of all these files that exist: renames and removals do not get in their way."""

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
        """To stable storage, on any thread; then the handles are closed."""
        try:
            for file in list(self._files):
                file.sync()
        finally:
            self.close()

    def close(self) -> None:
        """If they are not to be synced after all.  Whichever thread comes first closes a handle, once."""
        with contextlib.suppress(IndexError):
            while True:
                self._files.pop().close()


class PendingCall(Generic[T_co]):
    """A call that may take long, for any thread; how it ended is kept for the one who goes on."""

    __slots__ = ("_call", "_error", "_result", "is_done")

    def __init__(self, call: Callable[[], T_co]) -> None:
        self.is_done = False
        self._call = call
        self._result: T_co | None = None
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            self._result = self._call()
        except Exception as error:
            self._error = error
        finally:
            self.is_done = True

    def finish(self) -> T_co:
        """Run it now if nobody has; its result, or its error raised."""
        if not self.is_done:
            self.run()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # None is a result, too


class PendingSync:
    """A call that waits for the device, for any thread; how it ended is kept for the one who goes on."""

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
        """Run it now if nobody has; OSError or StorageFailure if it failed."""
        if not self.is_done:
            self.run()
        if self._error is not None:
            raise self._error


class SyncedRecords(NamedTuple):
    """The active segment and a handle of its records."""

    segment: Segment
    file: File


class FlushPlan:
    """What has to be synced so that the log is safe up to `up_to`.

    Made on the log's thread, `run` on any thread while appends go on, then handed to `Log.flushed` and
    closed.  It has handles of its own, so nothing that happens to the log meanwhile gets in its way.
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
        epochs: EpochsWrite | None,
    ) -> None:
        self.up_to = up_to
        # How often the log had been truncated or moved: a plan from before that proves nothing after it.
        self.cuts = cuts
        # What the log had noted to be synced.
        self.covers = covers
        # How many times the log had made files, whose names are synced.
        self.names_made = names_made
        # The leader epochs, if the file lacks some.
        self.epochs = epochs
        self._disk = disk
        self._log_folder = log_folder
        self._files = files
        # The active segment's, taken back afterwards: to open it for each flush costs as much as to write.
        self._records = records
        self._folders = folders

    def run(self) -> None:
        """StorageFailure when something cannot be synced: the directory is then not to be trusted."""
        with failing(self._log_folder, "flushing"):
            if self.epochs is not None:
                # First of all: recovery finds the epochs only of what lies behind the recovery point.
                with contextlib.suppress(FileNotFoundError):  # renamed for deletion meanwhile
                    self.epochs.run()
            self._files.sync()
            if self._records is not None:
                self._records.file.sync()
            for folder in self._folders:
                with contextlib.suppress(FileNotFoundError):  # renamed for deletion meanwhile
                    self._disk.sync_folder(folder)

    def take_records(self) -> SyncedRecords | None:
        """For the next flush, which then need not open them."""
        records, self._records = self._records, None
        return records

    def close(self) -> None:
        """Whether it was run or not."""
        self._files.close()
        records = self.take_records()
        if records is not None:
            records.file.close()


def in_order(calls: Iterable[Callable[[], None]]) -> Callable[[], None]:
    """Several calls that wait for the device as one, for a worker."""
    waiting = list(calls)

    def run() -> None:
        for call in waiting:
            call()

    return run


class FileDeletion:
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
