"""The rules of replication: high watermark, ISR, epochs, acknowledgements."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.metadata.topics import Partition as PartitionState
from barnabas.replica.partition import Partition, Proposal, Rules

TOPIC_ID = Uuid(bytes(15) + b"\x07")
LAG = 100


class FakeLog:
    def __init__(self, end_offset: int = 0) -> None:
        self.log_start_offset = 0
        self.high_watermark = 0
        self.end_offset = end_offset
        self.recovery_point = 0
        self.epochs: list[tuple[int, int]] = []

    def advance_high_watermark(self, offset: int) -> bool:
        assert self.high_watermark < offset <= self.end_offset
        self.high_watermark = offset
        return True

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        self.epochs.append((epoch, start_offset))


class Cluster:
    """Brokers that may be in an ISR."""

    def __init__(self, *, isr_is_in_image: bool = True) -> None:
        self.isr_is_in_image = isr_is_in_image
        self.ineligible: set[int] = set()
        self.dead: set[int] = set()
        self.epochs = {1: 100, 2: 200, 3: 300}

    def rules(self) -> Rules:
        return Rules(
            1,
            LAG,
            lambda broker, epoch: broker not in self.ineligible and epoch in (-1, self.epochs[broker]),
            lambda broker: broker not in self.dead,
            self.isr_is_in_image,
        )


def state(**fields: Any) -> PartitionState:
    replicas = fields.pop("replicas", (1, 2, 3))
    values: dict[str, Any] = {
        "replicas": replicas,
        "directories": (TOPIC_ID,) * len(replicas),
        "isr": replicas,
        "leader": 1,
        "leader_epoch": 4,
        "partition_epoch": 10,
        **fields,
    }
    return PartitionState(**values)


def leading(
    log: FakeLog | None = None, cluster: Cluster | None = None, min_isr: int = 1, **fields: Any
) -> tuple[Partition[FakeLog], FakeLog]:
    log = log or FakeLog()
    partition: Partition[FakeLog] = Partition("orders", 0, TOPIC_ID, (cluster or Cluster()).rules())
    partition.set_min_isr(min_isr)
    partition.lead(state(**fields), log, 0)
    return partition, log


def fetch(partition: Partition[FakeLog], broker: int, offset: int, now: int = 0, epoch: int = -1) -> bool:
    follower = partition.follower(broker, knows_epoch=False)
    return partition.follower_fetched(follower, offset, log_start_offset=0, broker_epoch=epoch, now_ns=now)


# M-D2
def test_a_single_replica_commits_every_append() -> None:
    partition, log = leading(replicas=(1,))
    log.end_offset = 5
    assert partition.advance(0)
    assert log.high_watermark == 5
    assert not partition.advance(0)
    assert partition.acknowledged(5) is ErrorCode.NONE


def test_an_existing_log_is_committed_when_its_only_replica_leads() -> None:
    partition, log = leading(FakeLog(7), replicas=(1,))
    assert log.high_watermark == 7
    assert partition.leader_epoch_start == 7
    assert log.epochs == [(4, 7)]


def test_the_high_watermark_is_the_smallest_end_offset_of_the_isr() -> None:
    partition, log = leading()
    log.end_offset = 10
    assert not partition.advance(0)
    assert not fetch(partition, 2, 8)
    assert fetch(partition, 3, 6)
    assert log.high_watermark == 6
    assert not fetch(partition, 3, 6)
    assert fetch(partition, 3, 10)
    assert log.high_watermark == 8


def test_a_replica_outside_the_isr_does_not_delay_the_high_watermark() -> None:
    partition, log = leading(isr=(1, 2))
    log.end_offset = 10
    assert fetch(partition, 2, 10)
    assert log.high_watermark == 10


def test_a_caught_up_replica_that_may_join_is_waited_for() -> None:
    partition, log = leading(isr=(1,), replicas=(1, 2))
    log.end_offset = 10
    fetch(partition, 2, 0, now=10)
    log.end_offset = 11
    fetch(partition, 2, 10, now=20)  # the end of the log at its last fetch
    assert partition.proposal is not None
    partition.refused(partition.proposal, ErrorCode.INELIGIBLE_REPLICA)
    assert partition.maximal_isr == {1}
    log.end_offset = 12
    partition.advance(30)
    assert log.high_watermark == 10
    log.end_offset = 13
    assert partition.advance(1000)  # too long ago
    assert log.high_watermark == 13


# M-D2, KIP-966
def test_the_high_watermark_does_not_advance_below_min_insync_replicas() -> None:
    # cluster.md 13
    partition, log = leading(isr=(1,), min_isr=2)
    log.end_offset = 10
    assert not partition.advance(0)
    assert log.high_watermark == 0
    with pytest.raises(KafkaError, match=r"insufficient to satisfy the min\.isr requirement of 2") as refused:
        partition.check_acks(-1)
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    partition.check_acks(1)
    partition.set_min_isr(1)
    assert partition.advance(0)


def test_min_insync_replicas_above_the_number_of_replicas_means_all() -> None:
    partition, log = leading(replicas=(1,), min_isr=3)
    log.end_offset = 3
    partition.check_acks(-1)
    assert partition.advance(0)
    assert partition.acknowledged(3) is ErrorCode.NONE


def test_acknowledged_when_the_isr_has_the_records() -> None:
    partition, log = leading(replicas=(1, 2), min_isr=2)
    log.end_offset = 4
    partition.advance(0)
    assert partition.acknowledged(4) is None
    fetch(partition, 2, 4)
    assert partition.acknowledged(4) is ErrorCode.NONE


def test_an_isr_that_shrank_after_the_append_is_reported() -> None:
    partition, log = leading(replicas=(1, 2), min_isr=2)
    log.end_offset = 4
    fetch(partition, 2, 4)
    partition.lead(state(replicas=(1, 2), isr=(1,), partition_epoch=11), log, 0)
    assert partition.acknowledged(4) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_a_former_leader_acknowledges_nothing() -> None:
    partition, log = leading(replicas=(1, 2))
    assert partition.follow(state(replicas=(1, 2), leader=2, leader_epoch=5, partition_epoch=11), log)
    assert partition.acknowledged(0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not partition.is_leader
    assert partition.leader == 2
    partition.lose_log()
    assert partition.acknowledged(0) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_flush_messages_holds_the_high_watermark_back_until_the_flush() -> None:
    partition, log = leading(replicas=(1,))
    partition.flush_messages = 1
    log.end_offset = 3
    assert not partition.advance(0)
    log.recovery_point = 2
    assert partition.advance(0)
    assert log.high_watermark == 2
    partition.flush_messages = 5
    log.end_offset = 9
    assert partition.advance(0)
    assert log.high_watermark == 6


# Epochs


def test_a_new_epoch_is_recorded_before_anything_is_written() -> None:
    partition, log = leading(FakeLog(3))
    partition.lead(state(leader_epoch=5, partition_epoch=11), log, 0)
    assert log.epochs == [(4, 3), (5, 3)]
    partition.lead(state(leader_epoch=5, partition_epoch=12, isr=(1, 2)), log, 0)
    assert log.epochs == [(4, 3), (5, 3)]
    assert partition.isr == {1, 2}


def test_a_state_older_than_the_alter_partition_response_is_ignored() -> None:
    partition, log = leading()
    assert not partition.lead(state(partition_epoch=9, isr=(1,)), log, 0)
    assert partition.isr == {1, 2, 3}
    assert not partition.follow(state(partition_epoch=9, leader=2), log)
    assert partition.is_leader


def test_following_the_same_leader_in_the_same_epoch_changes_nothing() -> None:
    partition, log = leading()
    follower = state(leader=2, leader_epoch=5, partition_epoch=11)
    assert partition.follow(follower, log)
    assert not partition.follow(state(leader=2, leader_epoch=5, partition_epoch=12), log)


# M-D1: the ISR


def test_a_replica_with_all_committed_records_is_proposed() -> None:
    partition, log = leading(isr=(1, 2))
    log.end_offset = 10
    fetch(partition, 2, 8)
    fetch(partition, 3, 7, epoch=300)
    assert partition.proposal is None  # below the high watermark
    fetch(partition, 3, 8, epoch=300)
    proposal = partition.proposal
    assert proposal is not None
    assert proposal.isr == ((1, -1), (2, -1), (3, 300))
    assert (proposal.leader_epoch, proposal.partition_epoch) == (4, 10)
    assert partition.isr == {1, 2}
    assert partition.maximal_isr == {1, 2, 3}
    log.end_offset = 20
    fetch(partition, 2, 20)
    assert log.high_watermark == 8  # 3 counts already


def test_a_replica_that_joins_is_the_last_in_the_isr() -> None:
    """Walk-through 3: `Isr: 2,1` becomes `Isr: 2,1,0`, the order of Apache Kafka."""
    partition, log = leading(isr=(3, 1))
    log.end_offset = 8
    fetch(partition, 3, 8)
    fetch(partition, 2, 8)
    joining = partition.proposal
    assert joining is not None
    assert [broker_id for broker_id, _ in joining.isr] == [3, 1, 2]
    partition.agreed(joining, [3, 1, 2], 4, 11, 0)
    assert partition.isr_order == (3, 1, 2)
    log.end_offset = 9
    fetch(partition, 3, 9, 2 * LAG)
    assert partition.propose_leaving(2 * LAG)
    leaving = partition.proposal
    assert leaving is not None
    assert [broker_id for broker_id, _ in leaving.isr] == [3, 1]


def test_a_replica_must_reach_the_start_of_this_leaders_epoch() -> None:
    """Records of the last leader may be committed, although our high watermark does not show it yet."""
    # cluster.md 5
    log = FakeLog(10)
    log.high_watermark = 4
    partition, _ = leading(log, isr=(1, 2))
    fetch(partition, 3, 9)
    assert partition.proposal is None
    fetch(partition, 3, 10)
    assert partition.proposal is not None


# KIP-903
def test_an_ineligible_replica_is_not_proposed() -> None:
    # cluster.md 10, 11
    cluster = Cluster()
    partition, _ = leading(cluster=cluster, isr=(1, 2))
    cluster.ineligible.add(3)
    fetch(partition, 3, 0)
    assert partition.proposal is None
    cluster.ineligible.clear()
    fetch(partition, 3, 0, epoch=299)  # from before its restart
    assert partition.proposal is None
    fetch(partition, 3, 0, epoch=300)
    assert partition.proposal is not None


def propose_leaving(partition: Partition[FakeLog], now: int) -> Proposal:
    assert partition.propose_leaving(now)
    assert partition.proposal is not None
    return partition.proposal


def test_a_lagging_replica_is_proposed_to_leave_and_counts_until_the_controller_agrees() -> None:
    partition, log = leading(replicas=(1, 2))
    log.end_offset = 10
    assert not partition.propose_leaving(LAG)
    proposal = propose_leaving(partition, LAG + 1)
    assert not partition.propose_leaving(LAG + 2)  # one proposal at a time
    assert proposal.isr == ((1, -1),)
    assert partition.maximal_isr == {1, 2}
    assert not partition.advance(LAG + 2)
    partition.agreed(proposal, [1], 4, 11, LAG + 3)
    assert (partition.isr, partition.partition_epoch) == ({1}, 11)
    assert partition.lead(state(replicas=(1, 2), isr=(1,), partition_epoch=11), log, LAG + 4)
    assert log.high_watermark == 10


# KIP-966
def test_who_leaves_counts_until_an_image_brings_the_isr_with_its_min_insync_replicas() -> None:
    """The controller may have raised min.insync.replicas before it agreed, and have put 2 into the ELR."""
    # cluster.md 13
    partition, log = leading(replicas=(1, 2), min_isr=1)
    log.end_offset = 10
    agreed = propose_leaving(partition, LAG + 1)
    assert not partition.agreed(agreed, [1], 4, 11, LAG + 2)
    log.end_offset = 12
    assert not partition.advance(LAG + 3)
    assert not partition.lead(state(replicas=(1, 2), partition_epoch=10), log, LAG + 4)  # an older image
    assert not partition.advance(LAG + 4)
    assert log.high_watermark == 0

    partition.set_min_isr(2)
    assert not partition.lead(state(replicas=(1, 2), isr=(1,), partition_epoch=11), log, LAG + 5)
    assert log.high_watermark == 0
    partition.set_min_isr(1)
    assert partition.advance(LAG + 6)
    assert log.high_watermark == 12


def test_who_left_before_the_next_proposal_counts_until_an_image_says_so() -> None:
    partition, log = leading()
    log.end_offset = 10
    fetch(partition, 2, 10, now=LAG)
    partition.agreed(propose_leaving(partition, LAG + 1), [1, 2], 4, 11, LAG + 1)
    log.end_offset = 20
    partition.agreed(propose_leaving(partition, 3 * LAG), [1], 4, 12, 3 * LAG)
    fetch(partition, 3, 15, now=3 * LAG)
    assert partition.proposal is not None  # 3 may come back
    assert not partition.refused(partition.proposal, ErrorCode.INELIGIBLE_REPLICA)
    assert log.high_watermark == 10
    partition.lead(state(isr=(1, 2), partition_epoch=11), log, 5 * LAG)
    assert log.high_watermark == 10
    assert partition.lead(state(isr=(1,), partition_epoch=12), log, 6 * LAG)
    assert log.high_watermark == 20


def test_without_images_of_isrs_who_leaves_counts_until_the_controller_agrees() -> None:
    """ZooKeeper mode: there is no ELR, and no LeaderAndIsr follows."""
    partition, log = leading(replicas=(1, 2), cluster=Cluster(isr_is_in_image=False))
    log.end_offset = 10
    assert partition.agreed(propose_leaving(partition, LAG + 1), [1], 4, 11, LAG + 2)
    assert log.high_watermark == 10


def test_a_replica_at_the_end_of_an_idle_log_does_not_lag() -> None:
    partition, log = leading(replicas=(1, 2))
    log.end_offset = 10
    fetch(partition, 2, 10, now=5)
    assert not partition.propose_leaving(10_000)
    assert partition.proposal is None


def test_a_definite_rejection_restores_the_committed_isr() -> None:
    # cluster.md 11
    for code in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED):
        partition, _ = leading(isr=(1, 2))
        fetch(partition, 3, 0)
        assert partition.proposal is not None
        assert not partition.refused(partition.proposal, code)
        assert partition.proposal is None
        assert partition.maximal_isr == {1, 2}


def test_other_rejections_wait_for_metadata_or_are_retried() -> None:
    # cluster.md 12
    partition, log = leading(isr=(1, 2))
    fetch(partition, 3, 0)
    proposal = partition.proposal
    assert proposal is not None
    assert not partition.refused(proposal, ErrorCode.FENCED_LEADER_EPOCH)
    assert partition.proposal is proposal
    assert partition.maximal_isr == {1, 2, 3}  # it may have been accepted all the same
    assert partition.refused(proposal, ErrorCode.NOT_CONTROLLER)
    partition.lead(state(partition_epoch=11), log, 0)
    assert partition.proposal is None
    assert not partition.refused(proposal, ErrorCode.NOT_CONTROLLER)
    assert not partition.agreed(proposal, [1], 4, 12, 0)
    assert partition.isr == {1, 2, 3}


def test_the_delta_of_a_known_state_does_not_withdraw_a_proposal_under_way() -> None:
    """A response to AlterPartition comes before the delta of the same change.  The next proposal may be with
    the controller by then: its replica counts, or it would be in the ISR without what is committed."""
    partition, log = leading(isr=(1, 2), partition_epoch=10)
    log.end_offset = 5
    fetch(partition, 3, 5)
    assert partition.proposal is not None
    assert partition.agreed(partition.proposal, [1, 2, 3], 4, 11, 0) is False
    partition.propose_leaving(2 * LAG)  # 2 has not fetched
    leaving = partition.proposal
    assert leaving is not None
    partition.agreed(leaving, [1, 3], 4, 12, 2 * LAG)
    fetch(partition, 2, 5, now=2 * LAG)  # and wants to come back
    joining = partition.proposal
    assert joining is not None
    assert partition.maximal_isr == {1, 2, 3}

    partition.lead(state(isr=(1, 3), partition_epoch=12), log, 2 * LAG)

    assert partition.proposal is joining
    assert partition.maximal_isr == {1, 2, 3}
    log.end_offset = 8
    fetch(partition, 3, 8, now=2 * LAG)
    later = 5 * LAG  # 2 does not count because it has been caught up lately
    partition.advance(later)
    assert log.high_watermark == 5
    partition.agreed(joining, [1, 2, 3], 4, 13, later)
    assert partition.isr == {1, 2, 3}


def test_the_delta_of_a_known_state_brings_its_replicas() -> None:
    partition, log = leading(isr=(1, 2), partition_epoch=10)
    partition.lead(state(replicas=(1, 2), isr=(1, 2), partition_epoch=10), log, 0)
    assert partition.replicas == (1, 2)
    assert set(partition.followers) == {2}


def test_a_response_of_another_epoch_is_ignored() -> None:
    partition, _ = leading(isr=(1, 2))
    fetch(partition, 3, 0)
    proposal = partition.proposal
    assert proposal is not None
    assert not partition.agreed(proposal, [1], 5, 12, 0)
    assert not partition.agreed(proposal, [1], 4, 9, 0)
    assert partition.isr == {1, 2}


def test_an_unknown_replica_is_rejected() -> None:
    partition, _ = leading(replicas=(1, 2))
    with pytest.raises(KafkaError) as refused:
        partition.follower(9, knows_epoch=False)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(KafkaError) as refused:
        partition.follower(9, knows_epoch=True)
    assert refused.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_replicas_are_added_and_removed_with_the_assignment() -> None:
    partition, log = leading(replicas=(1, 2))
    fetch(partition, 2, 0)
    known = partition.followers[2]
    partition.lead(state(replicas=(1, 2, 3), isr=(1, 2), partition_epoch=11), log, 0)
    assert partition.followers[2] is known
    partition.lead(state(replicas=(1, 3), isr=(1,), partition_epoch=12), log, 0)
    assert set(partition.followers) == {3}


def test_the_low_watermark_is_the_smallest_start_of_the_live_replicas() -> None:
    cluster = Cluster()
    partition, log = leading(cluster=cluster, replicas=(1, 2, 3))
    log.log_start_offset = 5
    for broker, start in ((2, 3), (3, 4)):
        follower = partition.follower(broker, knows_epoch=False)
        partition.follower_fetched(follower, 9, log_start_offset=start, broker_epoch=-1, now_ns=0)
    assert partition.low_watermark == 3
    cluster.dead.add(2)
    assert partition.low_watermark == 4
    cluster.dead.add(3)
    assert partition.low_watermark == 5


def test_a_leader_without_space_resigns_only_if_the_rest_can_take_writes() -> None:
    partition, _ = leading()
    assert partition.propose_resigning()
    assert partition.proposal is not None
    assert [broker_id for broker_id, _ in partition.proposal.isr] == [2, 3]
    assert not partition.propose_resigning(), "one proposal at a time"
    assert partition.maximal_isr == {1, 2, 3}
    strict, _ = leading()
    strict.set_min_isr(3)
    assert not strict.propose_resigning()
    alone, _ = leading(isr=(1,))
    assert not alone.propose_resigning()


def test_a_controller_that_lets_no_leader_resign_is_asked_once_an_epoch() -> None:
    """As Apache Kafka's."""
    partition, log = leading()
    assert partition.propose_resigning()
    assert partition.proposal is not None
    assert not partition.refused(partition.proposal, ErrorCode.INVALID_REQUEST)
    assert partition.proposal is None
    assert not partition.propose_resigning()
    fetch(partition, 2, 0, now=2 * LAG)
    log.end_offset = 10
    assert partition.propose_leaving(10 * LAG), "other changes of the ISR go on"
    partition.lead(state(leader_epoch=partition.leader_epoch + 1, partition_epoch=50), log, 0)
    assert partition.propose_resigning()


def test_a_leader_that_missed_an_epoch_does_not_count_what_followers_had_before_it() -> None:
    """Another led in between: followers may have truncated, and are asked again."""
    partition, log = leading(replicas=(1, 2))
    log.end_offset = 5
    fetch(partition, 2, 5)
    assert log.high_watermark == 5
    log.end_offset = 8
    fetch(partition, 2, 8)
    log.high_watermark = 5
    partition.lead(state(replicas=(1, 2), leader_epoch=6, partition_epoch=12), log, 0)
    assert log.high_watermark == 5
    fetch(partition, 2, 6)
    assert log.high_watermark == 6
