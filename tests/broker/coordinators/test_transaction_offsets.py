"""Offsets as a part of transactions: from TxnOffsetCommit to the marker in `__consumer_offsets`."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.base.hashing import partition_for_group
from barnabas.base.topic_names import CONSUMER_OFFSETS
from barnabas.broker.handlers import offset_fetch, txn_offset_commit
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.broker.worlds.txn_world import ABORT, COMMIT, PARTITIONS, TxnWorld


def test_offsets_of_a_transaction_count_when_it_is_committed() -> None:
    world = TxnWorld()
    world.init()
    topic = TxnOffsetCommitRequest.Topic
    partition = TxnOffsetCommitRequest.Partition

    def commit_offset(offset: int, epoch: int) -> int:
        rows = [partition(partition_index=0, committed_offset=offset, committed_metadata=None)]
        request = TxnOffsetCommitRequest(
            transactional_id="shop",
            group_id="readers",
            producer_id=0,
            producer_epoch=epoch,
            topics=[topic(name="orders", partitions=rows)],
        )
        answer = world.answer(txn_offset_commit, request, 5)
        return int(answer.topics[0].partitions[0].error_code)

    def fetched() -> int:
        rows = [OffsetFetchRequest.Topic(name="orders", partition_indexes=[0])]
        request = OffsetFetchRequest(group_id="readers", topics=rows)
        return int(world.answer(offset_fetch, request, 7).topics[0].partitions[0].committed_offset)

    assert commit_offset(5, epoch=0) == 0
    assert fetched() == -1
    assert world.end(COMMIT).error_code == 0
    assert fetched() == 5
    assert commit_offset(9, epoch=1) == 0
    assert world.end(ABORT, epoch=1).error_code == 0
    assert fetched() == 5
    index = partition_for_group("readers", PARTITIONS)
    assert [commit for _, _, commit in world.markers_in(index, CONSUMER_OFFSETS)] == [True, False]


def test_offsets_may_be_added_before() -> None:
    world = TxnWorld(level=1)
    world.init()
    assert world.add_offsets("readers", epoch=5) is ErrorCode.PRODUCER_FENCED
    assert world.add_offsets("readers", name="nobody") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.add_offsets("readers", name="") is ErrorCode.INVALID_REQUEST
    assert world.add_offsets("readers") is ErrorCode.NONE
    index = partition_for_group("readers", PARTITIONS)
    assert {str(one) for one in world.known().partitions} == {f"{CONSUMER_OFFSETS}-{index}"}
    assert world.end(COMMIT, version=4).error_code == 0
    assert world.state() == "CompleteCommit"
