"""Batches as a Produce request, and its answer by partition."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.client.metadata import Metadata
from barnabas.client.model import TopicPartition
from barnabas.client.producer.batches import ProducerBatch
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse

# From here on topics are named by their ids (KIP-516).
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


def answers_by_partition(
    answer: ProduceResponse, metadata: Metadata
) -> dict[TopicPartition, ProduceResponse.PartitionProduceResponse]:
    found = {}
    for topic in answer.responses:
        name = topic.name or metadata.names.get(topic.topic_id, "")
        for part in topic.partition_responses:
            found[TopicPartition(name, part.index)] = part
    return found


def refusal_text(answer: ProduceResponse.PartitionProduceResponse, where: TopicPartition) -> str | None:
    """What a broker says about its refusal, if it says more than the code."""
    if answer.error_message is None and not answer.record_errors:
        return None
    reasons = [one.batch_index_error_message for one in answer.record_errors if one.batch_index_error_message]
    return f"{where}: {'; '.join(reasons) or answer.error_message}"
