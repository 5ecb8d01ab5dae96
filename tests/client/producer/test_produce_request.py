"""What a response says about refused records."""

from __future__ import annotations

import pytest

from barnabas.client.model import TopicPartition
from barnabas.client.producer.produce_request import refusal_text
from barnabas.protocol.messages.produce import ProduceResponse


@pytest.mark.parametrize(
    ("reasons", "message", "text"),
    [
        (["no key", "no key", "no key"], "refused", "t-0: no key"),
        (["no key", "too old", "no key"], None, "t-0: no key; too old"),
        ([None], "refused", "t-0: refused"),
        ([], "refused", "t-0: refused"),
        ([], None, None),
    ],
)
def test_each_reason_is_told_once(reasons: list[str | None], message: str | None, text: str | None) -> None:
    """A compacted topic refuses every record without a key, with the same words."""
    response = ProduceResponse.PartitionProduceResponse(
        index=0,
        error_code=87,
        base_offset=-1,
        record_errors=[
            ProduceResponse.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=reason)
            for index, reason in enumerate(reasons)
        ],
        error_message=message,
    )
    assert refusal_text(response, TopicPartition("t", 0)) == text
