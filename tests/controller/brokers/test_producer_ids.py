"""AllocateProducerIds."""

from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from tests.controller.lab import Lab


def test_producer_ids_are_allocated_in_blocks_of_a_thousand() -> None:
    # KIP-730
    lab = Lab()
    epoch = lab.join()
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    starts = [lab.send(request, AllocateProducerIdsResponse).producer_id_start for _ in range(3)]
    assert starts == [0, 1000, 2000]
    assert lab.image.next_producer_id == 3000
    with pytest.raises(KafkaError) as refused:
        lab.send(AllocateProducerIdsRequest(broker_id=1, broker_epoch=0), AllocateProducerIdsResponse)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
