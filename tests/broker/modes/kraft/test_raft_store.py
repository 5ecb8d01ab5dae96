"""The store between the Raft node and the controller, where both change at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.base.effects import Event, Requested
from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.modes.kraft import raft_store
from barnabas.broker.modes.kraft.raft_store import RaftStore
from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.records.metadata import NoOpRecord
from barnabas.raft.messages import Append, Resign
from barnabas.raft.rpc import FetchResponse, LeaderAndEpoch
from barnabas.testing.simulation.metadata_node import creation
from tests.broker.worlds.kraft_world import KraftWorld

SMALL = {
    "metadata.log.max.record.bytes.between.snapshots": 2_000,
    "internal.metadata.log.segment.bytes": 4_000,
    "metadata.max.retention.bytes": 9_000,
}


def _store(kraft: KraftWorld) -> RaftStore:
    components = kraft.metadata._components
    assert components is not None
    return components.store


def test_leadership_that_ends_within_an_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quorum was lost while the first of two batches was appended: the second was refused as a bug."""
    monkeypatch.setattr(raft_store, "MAX_RECORDS_PER_BATCH", 1)
    kraft = KraftWorld()
    store = _store(kraft)
    step, appended = store._executor.step, 0

    def step_and_resign(event: Event) -> None:
        nonlocal appended
        step(event)
        if isinstance(event, Requested) and isinstance(event.message, Append):
            appended += 1
            step(Requested(None, Resign(event.message.epoch)))

    monkeypatch.setattr(store._executor, "step", step_and_resign)
    components = kraft.metadata._components
    assert components is not None
    refused: list[KafkaError] = []

    def append() -> None:
        try:
            components.driver.append(lambda: [NoOpRecord(), NoOpRecord()], atomic=False)
        except KafkaError as error:
            refused.append(error)

    kraft.enter(append)
    kraft.run(50)
    assert [error.code for error in refused] == [ErrorCode.NOT_CONTROLLER]
    assert appended == 1
    assert kraft.failures == []


def test_a_fetch_whose_response_waited_for_the_disk_longer_than_the_leadership() -> None:
    kraft = KraftWorld()
    store = _store(kraft)
    response = FetchResponse(LeaderAndEpoch(store.quorum.epoch, 1), read_from=0)
    assert store._with_records(response, 0).records is not None
    late = replace(response, leader=LeaderAndEpoch(store.quorum.epoch - 1, 1))
    assert store._with_records(late, 0).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_fetch_whose_records_were_deleted_before_its_response_was_sent() -> None:
    """Reading them raised OFFSET_OUT_OF_RANGE into whatever had let the response out."""
    kraft = KraftWorld(SMALL)
    kraft.join()
    for number in range(40):
        kraft.ask(creation(f"t{number}", partitions=2), CreateTopicsResponse)
    kraft.run(70_000)
    assert kraft.metadata.log_start_offset > 0
    store = _store(kraft)
    response = FetchResponse(LeaderAndEpoch(store.quorum.epoch, 1), read_from=0)
    assert store._with_records(response, 0) == response
