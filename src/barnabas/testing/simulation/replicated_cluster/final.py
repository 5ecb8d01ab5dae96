"""What holds when the faults have ended and nothing is written any more: replicas are equal."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.metadata.image import Image
from barnabas.runtime.simulated.world import InvariantError
from barnabas.storage.log.log import Log
from barnabas.testing.simulation.metadata_cluster.server import ClusterServer
from barnabas.testing.simulation.replicated_cluster.checker import ReplicationChecker
from barnabas.testing.simulation.replicated_cluster.copies import Copy


def compare_replicas(image: Image, servers: Mapping[int, ClusterServer], checker: ReplicationChecker) -> None:
    """The logs of a partition are equal from the highest log start on; epochs and producers, too."""
    for topic_id, topic in image.topics.items():
        for index, state in topic.partitions.items():
            logs: dict[int, Log] = {}
            copies: dict[int, Copy] = {}
            for server_id in state.replicas:
                broker, copy = servers[server_id].broker, checker.copy(server_id, topic_id, index)
                assert broker is not None, "it is in sync"
                assert copy is not None, "it is in sync"
                log = broker.replicas.partitions[topic.name, index].log
                if log is None:
                    raise InvariantError(f"{copy.who} has no log")
                logs[server_id], copies[server_id] = log, copy
            _compare_batches(copies)
            _compare_epochs(logs)
            _compare_producers(logs)


def _compare_batches(copies: Mapping[int, Copy]) -> None:
    start = max(copy.log_start_offset for copy in copies.values())
    expected: list[bytes] | None = None
    for copy in copies.values():
        content = [batch.content for batch in copy.batches_from(start)]
        if expected is None:
            expected = content
        elif content != expected:
            raise InvariantError(f"{copy.who}: its batches are not those of the other replicas")


def _compare_epochs(logs: Mapping[int, Log]) -> None:
    """An epoch in which nothing was written is known to its leader only.

    Deleted records come back if their broker is killed before it has written its checkpoint; their epochs do
    not, as in Apache Kafka.
    """
    start = max(log.log_start_offset for log in logs.values())
    start = max(
        start, *(log.epochs.entries[0].start_offset for log in logs.values() if log.epochs.entries), 0
    )
    found = {}
    for server_id, log in logs.items():
        entries = log.epochs.entries
        ends = [*(entry.start_offset for entry in entries), log.end_offset][1:]
        found[server_id] = [
            (entry.epoch, max(entry.start_offset, start))
            for entry, end in zip(entries, ends, strict=False)
            if entry.start_offset < log.end_offset and end > start
        ]
    first = next(iter(found.values()))
    if any(entries != first for entries in found.values()):
        raise InvariantError(f"the leader epochs of {next(iter(logs.values())).name} differ: {found}")


def _compare_producers(logs: Mapping[int, Log]) -> None:
    """Of deleted records a replica knows what it has seen before they were deleted."""
    start = max(log.log_start_offset for log in logs.values())
    found = {}
    for server_id, log in logs.items():
        found[server_id] = {
            producer_id: (entry.epoch, [(b.last_sequence, b.last_offset) for b in entry.batches][-1:])
            for producer_id, entry in sorted(log.producers.entries.items())
            if entry.batches and entry.batches[-1].last_offset >= start
        }
    first = next(iter(found.values()))
    if any(state != first for state in found.values()):
        raise InvariantError(f"the producers of {next(iter(logs.values())).name} differ: {found}")
