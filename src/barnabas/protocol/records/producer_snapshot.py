"""The file that stores the producers of a log.

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int16, int32, int64, uint32


class ProducerSnapshot(Message, versions=(1, 1)):
    """All producers of a log with their sequences and open transactions."""

    class ProducerEntry(Message):
        producer_id: int64
        epoch: int16
        last_sequence: int32
        last_offset: int64
        offset_delta: int32
        timestamp: int64
        coordinator_epoch: int32
        current_txn_first_offset: int64

    crc: uint32
    producer_entries: list[ProducerEntry]
