"""Snapshots of a whole cluster in memory, and going back to one.

A snapshot is what a power cut would leave if nothing were lost: the disks of all nodes at one moment.  To
restore it, every node ends as if killed and starts again from those files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.runtime.disk.memory_disk import DiskImage, MemoryDisk
from barnabas.runtime.simulated.ensemble.znodes import ZnodeTree
from barnabas.testing.kit.errors import KitError
from barnabas.testing.kit.waiting import wait_for

if TYPE_CHECKING:
    from barnabas.testing.kit.running import Running

START_PATIENCE_S = 60.0


class Snapshot:
    """The content of a cluster at one moment.  It may be restored any number of times."""

    def __init__(self, cluster_id: str, image: DiskImage, znodes: ZnodeTree | None) -> None:
        self._cluster_id = cluster_id
        self._image = image
        # In ZooKeeper mode.
        self._znodes = znodes

    @classmethod
    def of(cls, running: Running) -> Snapshot:
        disk, ensemble = _memory_of(running), running.ensemble
        # On the reactor nothing is half done.
        return running.call(
            lambda: cls(running.cluster_id, disk.image(), None if ensemble is None else ensemble.image())
        )

    def restore(self, running: Running) -> None:
        """Returns when all brokers serve clients again."""
        if running.cluster_id != self._cluster_id:
            raise KitError("this is a snapshot of another cluster, or of an earlier life of this one")
        disk = _memory_of(running)
        nodes = running.nodes

        def go_back() -> None:
            running.effects.clear()
            running.faults.clear()
            nodes.kill_all()
            nodes.heal_all()
            disk.replace(self._image)
            if running.ensemble is not None:
                assert self._znodes is not None, "it is a snapshot of this cluster"
                running.ensemble.replace(self._znodes)

        running.call(go_back)
        if running.ensemble is not None:
            # One of the brokers becomes the controller.
            running.finish(nodes.start_brokers, START_PATIENCE_S)
            return
        running.finish(nodes.start_controllers, START_PATIENCE_S)
        wait_for(
            lambda: running.call(lambda: nodes.active_controller is not None),
            START_PATIENCE_S,
            what="there is no active controller",
        )
        # The controller must not wait for the sessions of processes that are gone.
        running.call(nodes.fence_all)
        running.finish(nodes.start_brokers, START_PATIENCE_S)


def _memory_of(running: Running) -> MemoryDisk:
    if not isinstance(running.disk, MemoryDisk):
        raise KitError("only a cluster in memory has snapshots: leave out folder=…")
    return running.disk
