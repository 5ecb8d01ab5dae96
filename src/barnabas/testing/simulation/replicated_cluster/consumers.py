"""A consumer that reads every partition from its beginning, and looks at the latest offsets."""

from __future__ import annotations

from functools import partial

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.simulated.world import InvariantError
from barnabas.storage.log.log_reader import LATEST_TIMESTAMP
from barnabas.testing.simulation.replicated_cluster.client import Cluster, ClusterClient
from barnabas.testing.simulation.replicated_cluster.history import Batch, PartitionHistory

FETCH, LIST_OFFSETS = 1, 2
CONSUMER = -1
POLL_EVERY_NS = 60 * NS_PER_MS
LATEST_EVERY_NS = 150 * NS_PER_MS
MAX_WAIT_MS = 40
FETCH_BYTES = 500
TIMEOUT_MS = 1_500
# Ask again, perhaps another broker.
RETRIABLE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class Position:
    """How far a consumer has read one partition."""

    __slots__ = ("history", "is_in_flight", "last_epoch", "leader_epoch", "offset", "preferred")

    def __init__(self, history: PartitionHistory) -> None:
        self.history = history
        self.offset = 0
        # Of the last batch that was read (KIP-320), and the newest known one.
        self.last_epoch = -1
        self.leader_epoch = -1
        # The replica in the consumer's rack that the leader has named (KIP-392).
        self.preferred: int | None = None
        self.is_in_flight = False


class Consumer(ClusterClient):
    """Reads what is committed, in order, without gap or repeat."""

    def __init__(self, cluster: Cluster, node_id: int, *, read_committed: bool, rack: str = "") -> None:
        self.read_committed = read_committed
        self.rack = rack
        self.positions: dict[tuple[Uuid, int], Position] = {}
        super().__init__(cluster, node_id)

    def started(self) -> None:
        """A consumer starts again where it was."""
        for position in self.positions.values():
            position.is_in_flight = False
        self.after(POLL_EVERY_NS, self._poll)
        self.after(LATEST_EVERY_NS, self._ask_latest)

    def _poll(self) -> None:
        self.after(POLL_EVERY_NS, self._poll)
        for name, topic_id, index, state in self.partitions():
            position = self.positions.get((topic_id, index))
            if position is None:
                position = Position(self.cluster.history(name, topic_id, index))
                self.positions[topic_id, index] = position
            # As a client does, ignore what is older than known (KIP-320).
            if (
                state.leader >= 0
                and state.leader_epoch >= position.leader_epoch
                and not position.is_in_flight
            ):
                if state.leader_epoch != position.leader_epoch:
                    position.preferred = None
                position.leader_epoch = state.leader_epoch
                self._fetch(position, state.leader)

    def _fetch(self, position: Position, leader: int) -> None:
        follower = position.preferred
        position.is_in_flight = True
        history = position.history
        partition = FetchRequest.Partition(
            partition=history.index,
            current_leader_epoch=position.leader_epoch,
            fetch_offset=position.offset,
            # A follower may not know that epoch yet.
            last_fetched_epoch=position.last_epoch if follower is None else -1,
            partition_max_bytes=FETCH_BYTES,
        )
        topic = FetchRequest.Topic(topic=history.topic, topic_id=history.topic_id, partitions=[partition])
        request = FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            isolation_level=int(self.read_committed),
            topics=[topic],
            rack_id=self.rack,
        )
        broker_id = leader if follower is None else follower
        self.send(broker_id, FETCH, request, partial(self._fetched, position, follower), TIMEOUT_MS)

    def _fetched(self, position: Position, follower: int | None, message: Message | None) -> None:
        position.is_in_flight = False
        data = None
        if isinstance(message, FetchResponse) and message.responses:
            data = message.responses[0].partitions[0]
        if follower is not None and (data is None or data.error_code):
            # Back to the leader, whatever it was, as clients do.
            position.preferred = None
            return
        if data is None:
            return
        if data.preferred_read_replica >= 0:
            position.preferred = data.preferred_read_replica
            return
        history = position.history
        code = ErrorCode(data.error_code)
        if code is not ErrorCode.NONE:
            if code not in RETRIABLE and self.exists(history.topic_id):
                self._refused(position, code)
            return
        if position.leader_epoch < history.unclean_epoch or history.is_disputed:
            return  # it may be lost
        if data.diverging_epoch.epoch >= 0 and history.is_unclean:
            position.offset = min(position.offset, data.diverging_epoch.end_offset)
            position.last_epoch = data.diverging_epoch.epoch
            return
        if data.diverging_epoch.epoch >= 0:
            self.violate(
                f"{history.name}: read up to {position.offset} of epoch {position.last_epoch};"
                f" the leader has {data.diverging_epoch!r}"
            )
            return
        try:
            batches = history.check_read(self.name, _content(data.records), data.high_watermark)
            self._take(position, batches, data)
        except InvariantError as violation:
            self.cluster.violated(violation)

    def _refused(self, position: Position, code: ErrorCode) -> None:
        history = position.history
        if code is ErrorCode.OFFSET_OUT_OF_RANGE and position.offset < history.log_start_offset:
            position.offset, position.last_epoch = history.log_start_offset, -1
            return
        if code is ErrorCode.OFFSET_OUT_OF_RANGE and history.is_unclean:
            position.offset, position.last_epoch = min(position.offset, history.end_offset), -1
            return
        self.violate(
            f"{history.name}: fetch from {position.offset} (epoch {position.leader_epoch}): {code!r}"
        )

    def _take(self, position: Position, batches: list[Batch], data: FetchResponse.PartitionData) -> None:
        history = position.history
        for batch in batches:
            if not batch.base_offset <= position.offset < batch.next_offset:
                self.violate(f"{history.name}: got {batch} at position {position.offset}")
                return
            position.offset = batch.next_offset
            position.last_epoch = batch.epoch
            if self.read_committed and batch.is_transactional and not batch.is_control:
                self._check_outcome(history, batch, data)

    def _check_outcome(
        self, history: PartitionHistory, batch: Batch, data: FetchResponse.PartitionData
    ) -> None:
        """A client drops the batches of aborted transactions until their markers."""
        is_aborted = any(
            each.producer_id == batch.producer_id
            and each.first_offset
            <= batch.base_offset
            < history.marker_after(each.first_offset, batch.producer_id)
            for each in data.aborted_transactions or ()
        )
        history.read(batch, is_committed=not is_aborted)

    # Latest offsets

    def _ask_latest(self) -> None:
        self.after(LATEST_EVERY_NS, self._ask_latest)
        partitions = self.partitions() if self.is_active else []
        if not partitions:
            return
        name, topic_id, index, state = partitions[self.random.integer(0, len(partitions) - 1)]
        if state.leader < 0:
            return
        history = self.cluster.history(name, topic_id, index)
        partition = ListOffsetsRequest.Partition(
            partition_index=index, current_leader_epoch=state.leader_epoch, timestamp=LATEST_TIMESTAMP
        )
        request = ListOffsetsRequest(
            replica_id=CONSUMER, topics=[ListOffsetsRequest.Topic(name=name, partitions=[partition])]
        )
        self.send(state.leader, LIST_OFFSETS, request, partial(self._latest, history), TIMEOUT_MS)

    def _latest(self, history: PartitionHistory, message: Message | None) -> None:
        """KIP-207: the latest offset does not fall when the leader changes."""
        if not isinstance(message, ListOffsetsResponse):
            return
        result = message.topics[0].partitions[0]
        code = ErrorCode(result.error_code)
        if code is not ErrorCode.NONE:
            if code not in RETRIABLE and self.exists(history.topic_id):
                self.violate(f"{history.name}: the latest offset: {code!r}")
            return
        if not self.exists(history.topic_id) or history.is_unclean:
            return
        known = history.exposed_before(result.leader_epoch)
        if result.offset < known:
            self.violate(
                f"{history.name}: the leader of epoch {result.leader_epoch} says that {result.offset} is the"
                f" latest offset; earlier ones exposed {known}"
            )


def _content(records: object) -> bytes:
    assert records is None or isinstance(records, bytes | bytearray | memoryview), "a client has no files"
    return b"" if records is None else bytes(records)
