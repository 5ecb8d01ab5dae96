"""The components of a started node in KRaft mode, and how they end: in order, or given up."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.broker.modes.kraft.controller_driver import ControllerDriver
from barnabas.broker.modes.kraft.metadata_folder import MetadataFolder
from barnabas.broker.modes.kraft.periodic_tasks import PeriodicTasks
from barnabas.broker.modes.kraft.raft_store import RaftStore
from barnabas.broker.modes.kraft.snapshot_generator import SnapshotGenerator
from barnabas.runtime.loop.executor import WorkerPool
from barnabas.runtime.loop.promise import Promise


@dataclass(frozen=True, slots=True)
class Components:
    """What `KraftMetadata` builds from a loaded directory."""

    folder: MetadataFolder
    store: RaftStore
    driver: ControllerDriver
    periodic_tasks: PeriodicTasks
    snapshot_generator: SnapshotGenerator

    def stop(self) -> None:
        """Takes no more requests, and neither appends nor takes snapshots."""
        self.driver.close()
        self.store.close()
        self.snapshot_generator.close()

    def close(self, workers: WorkerPool, done: Promise[None]) -> None:
        """Stops, waits for pending writes, and closes the log cleanly."""
        self.stop()

        def closed(_: object, error: BaseException | None) -> None:
            if error is None:
                done.set(None)
            else:
                done.fail(error)

        # A worker may still sync or truncate.
        self.store.when_idle(lambda: workers.submit(self.folder.close, closed))


def abandon(folder: MetadataFolder, components: Components | None, done: Promise[None]) -> None:
    """Closes the files without syncing, after a failure or an incomplete start."""

    def abandon_folder() -> None:
        folder.abandon()
        done.set(None)

    if components is None:
        abandon_folder()
        return
    components.periodic_tasks.stop()
    components.stop()
    components.store.when_idle(abandon_folder)
