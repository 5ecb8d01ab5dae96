"""Truncation of a log, in steps.

Contains the order of the steps: what is changed in memory and in the file, what must be synced before the
next append, and how the producer state is rebuilt.  Where to truncate is decided in replica/.

The steps run on the log's thread; a step that yields a call waits for the device, so that may run on any
thread before the next step; one that raises DirectoryFull may run again.  Each other step is short.  Until
the last step the log must not be appended to, rolled or closed (`Log.is_truncating`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from barnabas.storage.failure import failing, refusing
from barnabas.storage.log import log_files
from barnabas.storage.log.deferred_work import OpenFiles, PendingCall
from barnabas.storage.producers.producer_replay import rebuild_in_steps

if TYPE_CHECKING:
    from barnabas.storage.log.log import Log

# A call that waits for the device; None: the step is over.
Step = PendingCall[None] | None


def truncate(log: Log, offset: int) -> Iterator[Step]:
    """Remove all records from this offset on."""
    if offset >= log.end_offset:
        # A leader that never wrote may have left an epoch at the log end offset.
        known = log.epochs.latest_epoch
        log.epochs.truncate_from_end(log.end_offset)
        if log.epochs.latest_epoch != known:
            # Batches of earlier epochs may follow, for which the file would have to be written at once.
            yield from _marked(log, _synced(log, [], folder=False))
    elif log.segments[0].base_offset > offset:
        yield from truncate_fully(log, offset, offset, sync=True)
    else:
        yield from _marked(log, _truncate(log, offset))


def truncate_fully(log: Log, offset: int, log_start_offset: int, *, sync: bool) -> Iterator[Step]:
    """Remove all records, and restart the log at this offset."""
    yield from _marked(log, _truncate_fully(log, offset, log_start_offset, sync=sync))


def _marked(log: Log, steps: Iterator[Step]) -> Iterator[Step]:
    log.is_truncating = True
    try:
        with failing(log.folder, "truncating"):
            yield from steps
    finally:
        log.is_truncating = False


def _truncate(log: Log, offset: int) -> Iterator[Step]:
    going = [segment for segment in log.segments if segment.base_offset > offset]
    log.local.retire(going)
    log.active.truncate_to(offset)
    log.cut_back(offset)
    log.epochs.truncate_from_end(offset)
    log.log_start_offset = min(offset, log.log_start_offset)
    log.high_watermark = min(offset, log.high_watermark)
    if not log.producers.is_empty:
        # Until the producers are known again, no transaction counts as complete.
        log.first_unstable_offset = log.log_start_offset
    # Otherwise a power loss could bring back truncated batches under the epoch of the next ones.
    yield from _synced(log, [log.active.path(log_files.LOG)], folder=bool(going))
    yield from rebuild_in_steps(
        log.producers,
        log.segments,
        log.log_start_offset,
        offset,
        log.clock.wall_ms(),
        log.local.take_snapshot,
    )
    log.producers.on_high_watermark(log.high_watermark)
    log.find_first_unstable()


def _truncate_fully(log: Log, offset: int, log_start_offset: int, *, sync: bool) -> Iterator[Step]:
    log.local.retire(list(log.segments))
    log.local.start_at(offset)
    log.cut_back(offset)
    log.epochs.clear(write=False)
    log.producers.truncate_fully_to(offset)
    log.log_start_offset = log_start_offset
    log.set_high_watermark(offset)
    if sync:
        log.local.take_snapshot()
        yield from _synced(log, [], folder=True)


def _synced(log: Log, paths: list[str], *, folder: bool) -> Iterator[Step]:
    files = OpenFiles(log.disk, paths)
    epochs = log.epochs.plan_write()
    call = PendingCall(_sync(log, files, folder, None if epochs is None else epochs.run))
    try:
        yield call
    except GeneratorExit:
        files.close()
        raise
    call.finish()
    if epochs is not None:
        log.epochs.written(epochs)


def _sync(
    log: Log, files: OpenFiles, folder: bool, write_epochs: Callable[[], None] | None
) -> Callable[[], None]:
    disk, path = log.disk, log.folder

    def sync() -> None:
        files.sync()
        if folder:
            disk.sync_folder(path)
        if write_epochs is not None:
            with refusing(path, "writing the leader epochs"):
                write_epochs()

    return sync
