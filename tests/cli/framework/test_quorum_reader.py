"""Reading the metadata log of a running quorum: a snapshot in parts, then what is committed after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.broker.modes.kraft.quorum.responses import encode_fetch, encode_fetch_snapshot
from barnabas.cli.framework import quorum_reader
from barnabas.cli.framework.exits import CommandError
from barnabas.cli.framework.quorum_reader import FETCH_SNAPSHOT_VERSION, FETCH_VERSION, QuorumReader
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from barnabas.protocol.record_frame import write_metadata_record
from barnabas.protocol.records.metadata import FeatureLevelRecord
from barnabas.protocol.schema import Message
from barnabas.raft import rpc
from barnabas.raft.rpc import LeaderAndEpoch
from barnabas.raft.snapshot import SnapshotId, snapshot_batches
from barnabas.raft.voters import Voters
from barnabas.runtime.network.network import Address

LEADER = LeaderAndEpoch(5, 1)
SNAPSHOT = SnapshotId(100, 3)
PART_BYTES = 64


def value(name: str) -> bytes:
    return write_metadata_record(FeatureLevelRecord(name=name, feature_level=1), 0)


def batch(offset: int, name: str) -> bytes:
    return bytes(build([Record(offset, 1, None, value(name))], leader_epoch=5))


class Controller:
    """Answers like a leader whose log starts with a snapshot."""

    def __init__(self, high_watermark: int, log: Sequence[tuple[int, str]]) -> None:
        self.high_watermark = high_watermark
        self.log = list(log)
        self.error = ErrorCode.NONE
        self.snapshot = b"".join(
            snapshot_batches(
                [value("from-the-snapshot")],
                SNAPSHOT,
                last_timestamp_ms=1,
                now_ms=1,
                kraft_version=0,
                voters=Voters({}),
            )
        )

    def send(self, _: Address, request: Message, version: int, *rest: object) -> Message:
        if isinstance(request, FetchSnapshotRequest):
            assert version == FETCH_SNAPSHOT_VERSION
            position = request.topics[0].partitions[0].position
            data = self.snapshot[position : position + PART_BYTES]
            part = rpc.FetchSnapshotResponse(LEADER, self.error, SNAPSHOT, position, len(self.snapshot), data)
            return encode_fetch_snapshot(part, version, "")
        assert isinstance(request, FetchRequest)
        offset = request.topics[0].partitions[0].fetch_offset
        return encode_fetch(100, self._fetch(offset), FETCH_VERSION, "")

    def _fetch(self, offset: int) -> rpc.FetchResponse:
        if offset < SNAPSHOT.offset:
            return rpc.FetchResponse(LEADER, self.error, self.high_watermark, snapshot=SNAPSHOT)
        records = b"".join(batch(at, name) for at, name in self.log if at >= offset)
        return rpc.FetchResponse(LEADER, self.error, self.high_watermark, records=records)


Lead = Callable[[Controller], QuorumReader]


@pytest.fixture
def lead(monkeypatch: pytest.MonkeyPatch) -> Lead:
    def start(controller: Controller) -> QuorumReader:
        monkeypatch.setattr(quorum_reader, "send_request", controller.send)
        return QuorumReader(Address("127.0.0.1", 1), 5, "id")

    return start


def names(reader: QuorumReader) -> list[tuple[int, str, bool]]:
    return [
        (read.last_offset, record.name, read.is_snapshot)
        for read in reader.read()
        for record in read.records()
        if isinstance(record, FeatureLevelRecord)
    ]


def test_a_snapshot_in_parts_and_what_is_committed_after_it(lead: Lead) -> None:
    controller = Controller(102, [(100, "a"), (101, "b"), (102, "not-committed")])
    reader = lead(controller)
    assert names(reader) == [(99, "from-the-snapshot", True), (100, "a", False), (101, "b", False)]
    assert names(reader) == []
    controller.high_watermark = 103
    assert names(reader) == [(102, "not-committed", False)]


def test_a_controller_that_leads_no_longer(lead: Lead) -> None:
    controller = Controller(100, [])
    controller.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(CommandError, match="refuses its log: NOT_LEADER_OR_FOLLOWER"):
        names(lead(controller))
