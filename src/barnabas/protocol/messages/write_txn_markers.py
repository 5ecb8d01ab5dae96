"""WriteTxnMarkers (api key 27).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int16, int32, int64, string


class WriteTxnMarkersRequest(Message, key=27, versions=(1, 1), flexible=1):
    """A transaction coordinator sends the markers to write to partitions."""

    class WritableTxnMarkerTopic(Message):
        name: string
        partition_indexes: list[int32]

    class WritableTxnMarker(Message):
        producer_id: int64
        producer_epoch: int16
        transaction_result: bool
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic]
        coordinator_epoch: int32

    markers: list[WritableTxnMarker]


class WriteTxnMarkersResponse(Message, key=27, versions=(1, 1), flexible=1):
    """The outcome for each partition."""

    class WritableTxnMarkerPartitionResult(Message):
        partition_index: int32
        error_code: int16

    class WritableTxnMarkerTopicResult(Message):
        name: string
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult]

    class WritableTxnMarkerResult(Message):
        producer_id: int64
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult]

    markers: list[WritableTxnMarkerResult]
