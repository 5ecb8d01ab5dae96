"""Truncations of followers' logs: in slices on the loop, and on workers where they wait for the device.

Contains which logs are being truncated, and what goes wrong meanwhile; the steps belong in
storage/log/truncation.py.  A partition changes its role only when its truncation is complete.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from functools import partial
from typing import NamedTuple

from barnabas.base.units import NS_PER_MS
from barnabas.broker.replicas.replica_logs import ReplicaStorage
from barnabas.runtime.loop.executor import WorkerPool
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.loop.workers import WorkersBusyError
from barnabas.storage.failure import DirectoryFull, StorageFailure
from barnabas.storage.log.deferred_work import PendingCall
from barnabas.storage.log.log import Log
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.log.truncation import Step
from barnabas.storage.log_truncation import truncate_log

logger = logging.getLogger(__name__)

# How long the steps of a truncation may hold the loop, and the pause before the next ones.
SLICE_NS = 5 * NS_PER_MS
PAUSE_NS = NS_PER_MS
RETRY_NS = 100 * NS_PER_MS
# How often a step that found no space is tried again.
NO_SPACE_NS = 1_000 * NS_PER_MS


class _Truncation(NamedTuple):
    name: TopicPartition
    log: Log
    steps: Generator[Step]
    done: Callable[[], None]


class Truncations:
    """The truncations of one broker.  Runs on the event loop's thread."""

    def __init__(
        self,
        storage: ReplicaStorage,
        *,
        timers: TimerService,
        workers: WorkerPool,
        now_ns: Callable[[], int],
    ) -> None:
        self._storage = storage
        self._timers = timers
        self._workers = workers
        self._now_ns = now_ns
        self._running: dict[TopicPartition, _Truncation] = {}
        # Those that wait for space, and not for a worker.
        self._refused: dict[TopicPartition, _Truncation] = {}
        # Set by `stop`; completed with the last truncation.
        self._stopped: Promise[None] | None = None

    def is_truncating(self, name: TopicPartition) -> bool:
        return name in self._running

    def start(
        self,
        name: TopicPartition,
        log: Log,
        offset: int,
        log_start_offset: int | None,
        done: Callable[[], None],
    ) -> None:
        """Truncate a log, and its copy on the way to another directory; `done` unless the directory fails."""
        manager = self._storage.manager
        steps = truncate_log(manager, name, offset, log_start_offset=log_start_offset)
        future = manager.futures.get(name)
        if future is not None and future.end_offset > offset:
            copy = truncate_log(manager, name, offset, log_start_offset=log_start_offset, future=True)
            steps = _one_after_another(steps, copy)
        truncation = self._running[name] = _Truncation(name, log, steps, done)
        self._advance(truncation)

    def stop(self) -> Promise[None]:
        """Completes with the last truncation: a log must not be closed within one."""
        stopped: Promise[None] = Promise()
        self._stopped = stopped
        for truncation in list(self._refused.values()):
            self._advance(truncation)
        if not self._running and not stopped.done:
            stopped.set(None)
        return stopped

    def _advance(self, truncation: _Truncation) -> None:
        """Run steps for the time of a slice, up to one that waits for the device."""
        self._refused.pop(truncation.name, None)
        if truncation.log.is_closed:
            truncation.steps.close()
            self._end(truncation)
            return
        until_ns = self._now_ns() + SLICE_NS
        try:
            for step in truncation.steps:
                if step is not None:
                    self._submit(truncation, step)
                    return
                if self._now_ns() >= until_ns:
                    self._after(PAUSE_NS, truncation, partial(self._advance, truncation))
                    return
        except StorageFailure as failure:
            self._end(truncation)
            self._storage.fail(truncation.log, failure)
            return
        except Exception:
            logger.exception("%s could not be truncated", truncation.name)
        self._end(truncation)
        truncation.done()

    def _submit(self, truncation: _Truncation, call: PendingCall[None]) -> None:
        def ran(_: object, error: BaseException | None) -> None:
            # An error of the call itself is raised by the next step.
            if isinstance(error, WorkersBusyError):
                self._after(RETRY_NS, truncation, partial(self._submit, truncation, call))
            elif isinstance(call.error, DirectoryFull) and self._stopped is None:
                # Half of it is done: the log can be used when all of it is.
                self._refused[truncation.name] = truncation
                self._storage.fail(truncation.log, call.error)
                self._after(NO_SPACE_NS, truncation, partial(self._submit, truncation, call))
            else:
                self._advance(truncation)

        self._refused.pop(truncation.name, None)
        self._workers.submit(call.run, ran)

    def _after(self, delay_ns: int, truncation: _Truncation, action: Callable[[], None]) -> None:
        self._timers.set((self, truncation.name), self._now_ns() + delay_ns, action)

    def _end(self, truncation: _Truncation) -> None:
        self._timers.cancel((self, truncation.name))
        del self._running[truncation.name]
        if self._stopped is not None and not self._running:
            self._stopped.set(None)


def _one_after_another(first: Generator[Step], second: Generator[Step]) -> Generator[Step]:
    yield from first
    yield from second
