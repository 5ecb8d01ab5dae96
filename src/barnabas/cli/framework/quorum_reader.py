"""Reads the metadata log of a running quorum: its latest snapshot, then everything committed after it.

It fetches as an observer does (KIP-595), but without a node id, so that the leader does not count it.  Works
with Apache Kafka's controllers too.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass

from barnabas.base.errors import ErrorCode
from barnabas.batch.view import BatchView, batches
from barnabas.broker.modes.kraft.quorum.requests import encode_request
from barnabas.broker.modes.kraft.quorum.responses import decode_response
from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.connecting import open_admin
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.single_request import send_request
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from barnabas.protocol.record_frame import read_metadata_record
from barnabas.protocol.schema import Message
from barnabas.raft import rpc
from barnabas.raft.snapshot import SnapshotId
from barnabas.raft.voters import ReplicaKey
from barnabas.runtime.network.network import Address

FETCH_VERSION = 17
FETCH_SNAPSHOT_VERSION = 1
# An observer without an id.
NO_REPLICA = ReplicaKey(-1)


@dataclass(frozen=True, slots=True)
class LogBatch:
    """A batch of the log, or of the snapshot that replaces what is before it."""

    view: BatchView
    last_offset: int
    epoch: int
    is_snapshot: bool = False

    def records(self) -> list[Message]:
        """The metadata records; none if it is a control batch."""
        if self.view.is_control:
            return []
        return [read_metadata_record(record.value or b"")[0] for record in self.view.records()]


class QuorumReader:
    """A position in the log of one leader.  `read` continues where it ended."""

    def __init__(self, leader: Address, epoch: int, cluster_id: str) -> None:
        self._leader = leader
        self._epoch = epoch
        self._cluster_id = cluster_id
        self._offset = 0
        self._last_epoch = 0

    def read(self) -> Iterator[LogBatch]:
        """Everything that is committed now and was not read yet.

        Raises CommandError if the leader has moved: a new reader finds it.
        """
        while True:
            response = self._fetch()
            if response.snapshot is not None:
                yield from self._snapshot(response.snapshot)
                continue
            before = self._offset
            for fetched in response.batches:
                if fetched.end_offset > response.high_watermark:
                    break  # Not committed yet.
                assert isinstance(fetched.data, bytes | bytearray)
                view = BatchView(memoryview(fetched.data))
                self._offset, self._last_epoch = fetched.end_offset, fetched.epoch
                yield LogBatch(view, view.last_offset, fetched.epoch)
            if self._offset == before:
                return

    def _fetch(self) -> rpc.FetchResponse:
        request = rpc.FetchRequest(NO_REPLICA, self._epoch, self._offset, self._last_epoch)
        message = encode_request(request, self._cluster_id, FETCH_VERSION)
        sent = send_request(self._leader, message, FETCH_VERSION, FetchResponse)
        _check(ErrorCode(sent.error_code))
        response = decode_response(sent, "")
        assert isinstance(response, rpc.FetchResponse)
        _check(response.error)
        return response

    def _snapshot(self, snapshot: SnapshotId) -> Iterator[LogBatch]:
        content = bytearray()
        while True:
            request = rpc.FetchSnapshotRequest(NO_REPLICA, self._epoch, snapshot, len(content))
            message = encode_request(request, self._cluster_id, FETCH_SNAPSHOT_VERSION)
            sent = send_request(self._leader, message, FETCH_SNAPSHOT_VERSION, FetchSnapshotResponse)
            _check(ErrorCode(sent.error_code))
            response = decode_response(sent, "")
            assert isinstance(response, rpc.FetchSnapshotResponse)
            _check(response.error)
            content += response.data
            if len(content) >= response.size:
                break
        self._offset, self._last_epoch = snapshot.offset, snapshot.epoch
        for view in batches(memoryview(content)):
            view.ensure_valid()
            yield LogBatch(view, snapshot.offset - 1, snapshot.epoch, is_snapshot=True)


def _check(error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        raise CommandError(f"barnabas: the controller refuses its log: {error.name}", Exit.UNREACHABLE)


def open_reader(parser: ArgumentParser, options: Namespace) -> QuorumReader:
    """A reader at the leader of the quorum, which the flags' servers know."""
    from barnabas.client.errors import UnsupportedVersionError

    with open_admin(parser, options) as admin:
        cluster_id = admin.describe_cluster().cluster_id
        try:
            quorum = admin.describe_metadata_quorum()
        except UnsupportedVersionError as error:
            raise CommandError(
                "barnabas: a cluster in ZooKeeper mode has no metadata log; use barnabas zookeeper-shell, or "
                "barnabas timeline --dir with the log directories of its brokers"
            ) from error
    endpoints = quorum.nodes.get(quorum.leader_id, ())
    if not endpoints:
        raise CommandError("barnabas: the cluster does not say where its active controller is")
    leader = Address(endpoints[0].host, endpoints[0].port)
    return QuorumReader(leader, quorum.leader_epoch, cluster_id or "")
