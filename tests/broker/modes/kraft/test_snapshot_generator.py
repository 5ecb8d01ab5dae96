"""Snapshots of this node beside those that it fetches."""

from __future__ import annotations

from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.raft.snapshot import SnapshotId
from barnabas.testing.simulation.metadata_node import METADATA, creation
from tests.broker.worlds.kraft_world import KraftWorld

SMALL = {
    "metadata.log.max.record.bytes.between.snapshots": 2_000,
    "internal.metadata.log.segment.bytes": 4_000,
    "metadata.max.retention.bytes": 9_000,
}


def test_a_snapshot_that_was_overtaken_by_a_fetched_one_is_removed() -> None:
    """The Raft node was then told that the older one was its latest, and offered it to followers."""
    kraft = KraftWorld(SMALL)
    components = kraft.metadata._components
    assert components is not None
    newer, older = SnapshotId(1_000, 7), SnapshotId(5, 1)
    components.folder.snapshots.written(newer)
    kraft.disk.write_atomically(f"{METADATA}/{older.file_name}", b"content")
    known = components.store.quorum.quorum.log.snapshot
    kraft.enter(lambda: components.snapshot_generator._written(older, None, None))
    assert components.folder.snapshots.latest == newer
    assert older.file_name not in kraft.disk.names(METADATA)
    assert components.store.quorum.quorum.log.snapshot == known


def test_a_snapshot_that_is_written_while_another_is_installed_is_compared_with_that() -> None:
    """It was listed, and reported to the Raft node, while the worker replaced the log and the list."""
    kraft = KraftWorld(SMALL)
    components = kraft.metadata._components
    assert components is not None
    folder = components.folder
    newer, older = SnapshotId(1_000, 7), SnapshotId(5, 1)
    kraft.disk.write_atomically(f"{METADATA}/{older.file_name}", b"content")
    known = components.store.quorum.quorum.log.snapshot
    folder.is_changing = True
    kraft.enter(lambda: components.snapshot_generator._written(older, None, None))
    kraft.run(1_000)
    assert older not in folder.snapshots.ids
    folder.snapshots.written(newer)
    folder.is_changing = False
    kraft.run(1_000)
    assert older not in folder.snapshots.ids
    assert older.file_name not in kraft.disk.names(METADATA)
    assert components.store.quorum.quorum.log.snapshot == known


def test_a_snapshot_that_was_installed_is_not_written_again() -> None:
    """A follower that was fetching it would have got bytes of both files."""
    kraft = KraftWorld({**SMALL, "metadata.log.max.record.bytes.between.snapshots": 10_000_000})
    components = kraft.metadata._components
    assert components is not None
    image = kraft.metadata.image
    installed = SnapshotId(image.offset + 1, image.epoch)
    components.folder.snapshots.written(installed)
    quorum = components.store.quorum
    kraft.enter(
        lambda: components.snapshot_generator.committed(
            image, 10_000_000, quorum.voters, quorum.quorum.history.kraft_version
        )
    )
    kraft.run(1_000)
    assert installed.file_name not in kraft.disk.names(METADATA)


def test_the_log_is_not_deleted_while_a_worker_changes_it() -> None:
    kraft = KraftWorld(SMALL)
    kraft.join()
    for number in range(40):
        kraft.ask(creation(f"t{number}", partitions=2), CreateTopicsResponse)
    components = kraft.metadata._components
    assert components is not None
    components.folder.is_changing = True
    kraft.run(70_000)
    assert kraft.metadata.log_start_offset == 0
    components.folder.is_changing = False
    kraft.run(70_000)
    assert kraft.metadata.log_start_offset > 0
