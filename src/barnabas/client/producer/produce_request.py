"""Produce requests from batches, and their responses by partition."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.client.metadata import Metadata
from barnabas.client.model import TopicPartition
from barnabas.client.producer.batches import ProducerBatch
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse

# From this version on topics are identified by id (KIP-516).
TOPIC_ID_VERSION = 13


def produce_request(
    batches: Sequence[ProducerBatch],
    metadata: Metadata,
    version: int,
    *,
    acks: int,
    timeout_ms: int,
    transactional_id: str | None,
) -> ProduceRequest:
    topics: dict[str, ProduceRequest.TopicProduceData] = {}
    for batch in batches:
        data = topics.get(batch.topic)
        if data is None:
            data = topics[batch.topic] = ProduceRequest.TopicProduceData(name=batch.topic, partition_data=[])
            if version >= TOPIC_ID_VERSION:
                data.topic_id = metadata.topics[batch.topic].id
        part = ProduceRequest.PartitionProduceData(index=batch.partition, records=batch.encoded())
        data.partition_data.append(part)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=list(topics.values()),
    )


def responses_by_partition(
    response: ProduceResponse, metadata: Metadata
) -> dict[TopicPartition, ProduceResponse.PartitionProduceResponse]:
    by_partition = {}
    for topic in response.responses:
        name = topic.name or metadata.names.get(topic.topic_id, "")
        for part in topic.partition_responses:
            by_partition[TopicPartition(name, part.index)] = part
    return by_partition


def refusal_text(response: ProduceResponse.PartitionProduceResponse, partition: TopicPartition) -> str | None:
    """Return the broker's explanation of an error, if it has more than the code."""
    if response.error_message is None and not response.record_errors:
        return None
    # Often the same of each record.
    reasons = dict.fromkeys(
        error.batch_index_error_message for error in response.record_errors if error.batch_index_error_message
    )
    return f"{partition}: {'; '.join(reasons) or response.error_message}"
