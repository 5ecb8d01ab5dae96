"""What a power loss would leave of a metadata folder, read as a restart would read it."""

from __future__ import annotations

from barnabas.broker.modes.kraft.metadata_folder import MetadataFolder, log_options
from barnabas.broker.modes.kraft.metadata_folder_loader import batches_up_to, snapshot_batches
from barnabas.config.node.node import Node as Configuration
from barnabas.metadata.image import Image
from barnabas.metadata.loader import MetadataLoader
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.clock import SimulatedClock
from barnabas.testing.simulation.metadata_node import DATA


class Survivor:
    """The state of a disk after a power loss."""

    def __init__(self, disk: Disk, clock: SimulatedClock, settings: Configuration) -> None:
        self.folder = MetadataFolder(disk, clock, SeededRandom(1), DATA, log_options(settings.settings))

    def image_at(self, offset: int) -> Image:
        """The image of all records up to this offset."""
        folder, latest = self.folder, self.folder.snapshots.latest
        start = folder.log.log_start_offset if latest is None else latest.offset
        loader = MetadataLoader()
        loader.load([batch for batch in snapshot_batches(folder) if batch.last_offset <= offset])
        loader.load(list(batches_up_to(folder, start, offset + 1)))
        loader.publish()
        return loader.image
