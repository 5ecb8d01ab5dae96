"""The log of a shard: builds batches from entries and appends them to a partition that this broker leads.

The meaning of entries belongs in coordinator/, the append itself in the replica manager.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.batch.build import build
from barnabas.batch.compression import Codec
from barnabas.batch.control import EndTransactionMarker, build_marker
from barnabas.batch.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Record
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.coordinator.decision import Marker, ProducerStamp
from barnabas.coordinator.entry import Entry, encode
from barnabas.runtime.disk.disk import Buffer
from barnabas.storage.log.log import Log
from barnabas.storage.producers.producer_append import AppendOrigin, Verification

# Upper bounds for the overhead of a batch and of each record, without keys and values.
BATCH_OVERHEAD_BYTES = 61
RECORD_OVERHEAD_BYTES = 26
_ALL_IN_SYNC = -1
_NO_PRODUCER = ProducerStamp(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class PartitionStore:
    """Appends to one partition of a coordinator's topic, in one leader epoch.

    A shard of an earlier epoch may not know the records of the leaders since then: it appends nothing.
    """

    def __init__(
        self, replicas: ReplicaManager, hosted: Hosted, leader_epoch: int, codec: Callable[[], Codec]
    ) -> None:
        self._replicas = replicas
        self._hosted = hosted
        self._leader_epoch = leader_epoch
        self._codec = codec

    def _log(self) -> Log:
        """Returns the current log, which may have moved to another directory."""
        log = self._hosted.log
        if log is None or self._hosted.leader_epoch != self._leader_epoch:
            raise self._replicas.not_leader(self._hosted)
        return log

    @property
    def high_watermark(self) -> int:
        """Returns -1 if this broker no longer leads in this epoch: what it appended may be truncated."""
        log = self._hosted.log
        is_current = self._hosted.is_leader and self._hosted.leader_epoch == self._leader_epoch
        return log.high_watermark if log is not None and is_current else -1

    def append(
        self,
        entries: Sequence[Entry],
        producer: ProducerStamp | None,
        now_ms: int,
        verification: object | None,
        *,
        atomic: bool,
    ) -> tuple[int, int]:
        """See `coordinator.shard.Store`."""
        records: list[Record] = []
        remaining_bytes = self._log().options.max_message_bytes - BATCH_OVERHEAD_BYTES
        for index, entry in enumerate(entries):
            key, value = encode(entry)
            remaining_bytes -= len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES
            if remaining_bytes < 0 and records and not atomic:
                break
            records.append(Record(index, now_ms, key, value))
        stamp = producer or _NO_PRODUCER
        batch = build(
            records,
            codec=self._codec(),
            producer_id=stamp.producer_id,
            producer_epoch=stamp.producer_epoch,
            transactional=producer is not None,
        )
        return len(records), self._append(batch, verification)

    def append_marker(self, marker: Marker, now_ms: int) -> int:
        """Appends a marker; returns the offset after it."""
        self._log()
        batch = build_marker(
            EndTransactionMarker(marker.committed, marker.coordinator_epoch),
            timestamp=now_ms,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
        )
        return self._append(batch, None)

    def _append(self, batch: Buffer, verification: object | None) -> int:
        assert verification is None or isinstance(verification, Verification), "it came from this log"
        result = self._replicas.append(
            self._hosted, batch, _ALL_IN_SYNC, verification, AppendOrigin.COORDINATOR
        )
        return result.last_offset + 1
