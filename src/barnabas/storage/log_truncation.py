"""Truncation of a follower's log with its checkpoints, while the cleaner is stopped on it."""

from __future__ import annotations

from collections.abc import Callable, Generator

from barnabas.storage.cleaner.cleaner import log_dir_of
from barnabas.storage.failure import failing
from barnabas.storage.log.deferred_work import PendingCall, in_order
from barnabas.storage.log.log import Log
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.log.truncation import Step
from barnabas.storage.log_manager import LogManager


def truncate_log(
    manager: LogManager,
    partition: TopicPartition,
    offset: int,
    *,
    log_start_offset: int | None = None,
    future: bool = False,
) -> Generator[Step]:
    """Truncate a partition's log in steps; see storage/log/truncation.py for what they are.

    With `log_start_offset`, all records go, and the log restarts at `offset`.
    """
    log = (manager.futures if future else manager.logs).get(partition)
    if log is None:
        return
    cleaner = None if future else manager.cleaner
    if cleaner is not None:
        cleaner.pause(partition)
    try:
        if log_start_offset is None:
            yield from log.truncation(offset)
        else:
            yield from log.full_truncation(offset, log_start_offset=log_start_offset)
        manager.logs_with_deletes.add(log)
        checkpoints = _plan_checkpoints(manager, partition, log, future=future)
        if checkpoints is not None:
            call = PendingCall(checkpoints)
            yield call
            with failing(log.folder, "truncating"):
                call.finish()
    finally:
        if cleaner is not None:
            cleaner.resume(partition)


def _plan_checkpoints(
    manager: LogManager, partition: TopicPartition, log: Log, *, future: bool
) -> Callable[[], None] | None:
    """A call that writes the checkpoints: batches written next must not count as flushed or clean.

    None if the checkpoints claim nothing of what was truncated, as is usual.  They have a line for every log
    of the directory: ten thousand truncations at once must not write ten thousand of them.
    """
    log_dir = log_dir_of(log)
    directory, plans = manager.live[log_dir], []
    if directory.recovery_points.may_exceed(partition, log.end_offset):
        plans.append(directory.plan_recovery_points(manager.logs_in(log_dir)))
    if manager.cleaner is not None and not future:
        manager.cleaner.truncated(partition, log_dir, log.active.base_offset)
        if manager.cleaner.has_unwritten(log_dir):
            plans.append(manager.cleaner.plan_checkpoint(log_dir))
    return in_order(plans) if plans else None
