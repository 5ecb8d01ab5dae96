"""The files of the metadata log, on a disk that must not be waited for on the loop."""

from __future__ import annotations

import pytest

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.broker.modes.kraft.metadata_folder import MetadataFolder, log_options
from barnabas.raft.messages import (
    AppendFetched,
    InstallSnapshot,
    SnapshotInstalled,
    TruncateLog,
    WriteSnapshotChunk,
)
from barnabas.raft.rpc import FetchedBatch
from barnabas.raft.snapshot import SnapshotId
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.disk_faults import Kind
from barnabas.runtime.simulated.world import World
from barnabas.testing.simulation.metadata_node import DATA, configuration, format_folder


def _fetched(offset: int, epoch: int) -> AppendFetched:
    data = bytes(build([Record(offset, 0, None, b"v")], leader_epoch=epoch))
    return AppendFetched(FetchedBatch(offset, offset + 1, epoch, data, ()))


def _open(disk: SimulatedDisk) -> MetadataFolder:
    clock = World(1).add_node(1, lambda _: None).clock
    return MetadataFolder(disk, clock, SeededRandom(1), DATA, log_options(configuration().settings))


def _formatted() -> SimulatedDisk:
    disk = SimulatedDisk(SeededRandom(2))
    format_folder(disk)
    return disk


def test_an_append_after_a_truncation_does_not_wait_for_the_disk() -> None:
    """The leader epochs of the truncated records were in the file: the next append replaced it, and synced."""
    disk = _formatted()
    folder = _open(disk)
    for offset, epoch in enumerate((1, 1, 4)):
        folder.write(_fetched(offset, epoch))
    folder.sync()
    truncate = folder.write(TruncateLog(2))
    assert truncate is not None
    assert folder.is_changing
    truncate()
    assert not folder.is_changing
    synced: list[tuple[Kind, str]] = []
    disk.on_sync = lambda kind, path: synced.append((kind, path))
    folder.write(_fetched(2, 3))
    assert synced == []
    assert [tuple(entry) for entry in folder.log.epochs.entries] == [(1, 0), (3, 2)]


def test_a_damaged_snapshot_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """It was a line for each time that it was fetched again."""
    folder = _open(_formatted())
    for snapshot, lines in ((SnapshotId(7, 1), 1), (SnapshotId(7, 1), 1), (SnapshotId(9, 1), 2)):
        folder.write(WriteSnapshotChunk(snapshot, 0, b"not a snapshot"))
        install = folder.write(InstallSnapshot(snapshot))
        assert install is not None
        assert install() == SnapshotInstalled(snapshot, None)
        assert sum("is damaged and will be fetched again" in line for line in caplog.messages) == lines
    assert folder.log.end_offset == 0
