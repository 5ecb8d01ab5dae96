"""A partition on one broker: its leader, its ISR, and its high watermark.

Contains the rules of replication, as a state machine without IO: the controller's decisions, appends and
followers' fetches go in; an advanced high watermark and a proposed change of the ISR come out.  The log's
files, sending AlterPartition and responses to clients belong in the broker.

It has one method for each event, which takes the time where time matters, changes the partition at once and
returns whether the high watermark advanced; a proposed change of the ISR stays in `proposal` until it is
sent.  There are no effects to keep in order, so there is no list of them.  `advance` is the only place where
a leader's high watermark advances.

The high watermark is the smallest end offset over the maximal ISR: the committed one and the replicas
proposed to join it (KIP-497).  It does not advance while the ISR is below min.insync.replicas (KIP-966).
Whether it is, only an image says: a response to AlterPartition may come before the image with another
min.insync.replicas, by which the controller has put those that leave into the ELR.  They count until the
image of the smaller ISR is here.  A partition with one replica follows the same rules, without followers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.metadata.topics import NO_LEADER
from barnabas.metadata.topics import Partition as PartitionState
from barnabas.replica.follower_state import NO_BROKER_EPOCH, Follower

if TYPE_CHECKING:
    from barnabas.replica.fetch_sessions import CachedPartition

logger = logging.getLogger(__name__)

NO_EPOCH = -1
# flush.messages, when flushes are not configured.
NEVER_FLUSH = 2**63 - 1
# With these errors of the controller our state is still valid; with all others we wait for its next delta, or
# retry (see `refused`).
_NOT_DONE = frozenset((ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA))
_WAIT_FOR_METADATA = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    )
)


class PartitionLog(Protocol):
    """What the rules need to know of a log."""

    log_start_offset: int
    high_watermark: int
    end_offset: int

    @property
    def recovery_point(self) -> int:
        """Everything before it is on stable storage."""
        ...

    def advance_high_watermark(self, offset: int) -> bool: ...

    def assign_epoch(self, epoch: int, start_offset: int) -> None: ...


LogT = TypeVar("LogT", bound=PartitionLog)


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules that apply to all partitions of a broker."""

    broker_id: int
    lag_max_ns: int
    # Whether the broker with this id and epoch may be in an ISR: alive, not fenced, not shutting down.
    is_eligible: Callable[[int, int], bool]
    is_alive: Callable[[int], bool]
    # Whether each ISR that the controller agrees to comes in an image, too.  In ZooKeeper mode it does not;
    # there is no ELR.
    isr_is_in_image: bool = True


@dataclass(frozen=True, slots=True)
class Proposal:
    """An ISR that the leader proposes: the content of AlterPartition.  Pairs are broker id and broker
    epoch."""

    isr: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int


class Partition(Generic[LogT]):
    """The replica of a partition on this broker.  `log` is None until one is opened, and again if it
    fails."""

    __slots__ = (
        "flush_messages",
        "followers",
        "index",
        "is_leader",
        "is_under_min_isr",
        "isr",
        "isr_order",
        "leader",
        "leader_epoch",
        "leader_epoch_start",
        "leaving",
        "log",
        "maximal_isr",
        "may_resign",
        "min_isr",
        "partition_epoch",
        "proposal",
        "replicas",
        "rules",
        "topic",
        "topic_id",
        "watchers",
    )

    def __init__(self, topic: str, index: int, topic_id: Uuid, rules: Rules) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.rules = rules
        self.log: LogT | None = None
        self.is_leader = False
        self.leader = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.leader_epoch_start: int | None = None
        self.partition_epoch = NO_EPOCH
        self.replicas: tuple[int, ...] = ()
        # As it was agreed on: a replica that joins is the last (`Isr: 2,1,0`).
        self.isr_order: tuple[int, ...] = ()
        self.isr: frozenset[int] = frozenset()
        self.maximal_isr: frozenset[int] = frozenset()
        # No members any more, as the controller has agreed to, but an image does not say so yet.
        self.leaving: frozenset[int] = frozenset()
        self.min_isr = 1
        self.is_under_min_isr = False
        self.flush_messages = NEVER_FLUSH
        self.followers: dict[int, Follower] = {}
        # Whether the controller lets a leader resign; that of Apache Kafka does not.
        self.may_resign = True
        # Proposed or already sent; while there is one, no other is made.
        self.proposal: Proposal | None = None
        # This partition in the sessions of followers.
        self.watchers: tuple[CachedPartition, ...] = ()

    def __repr__(self) -> str:
        role = "leader" if self.is_leader else "follower"
        return f"Partition({self.topic}-{self.index}, {role} in epoch {self.leader_epoch})"

    # The controller decides

    def lead(self, state: PartitionState, log: LogT, now_ns: int) -> bool:
        """Become leader, or continue as leader with another ISR; returns whether the high watermark
        advanced."""
        if state.partition_epoch < self.partition_epoch:
            return False  # a response to AlterPartition has already contained a newer state
        self.log = log
        was_leader = self.is_leader
        if not self._is_known(state):
            self._take_isr(state.isr)
        self.leaving = frozenset()
        self._take_replicas(state.replicas)
        if state.leader_epoch > self.leader_epoch:
            # In an epoch between, another may have led, and followers may have truncated what they had.
            is_next = state.leader_epoch == self.leader_epoch + 1
            self._begin_epoch(state, log, now_ns, new_leader=not (was_leader and is_next))
        self.partition_epoch = state.partition_epoch
        self.leader = self.rules.broker_id
        self.is_leader = True
        self._update_under_min_isr()
        return self.advance(now_ns)

    def _is_known(self, state: PartitionState) -> bool:
        """Whether a response to AlterPartition has brought this ISR already.

        Then the next proposal may be with the controller: a replica that is to join still counts, and if the
        controller agrees, it has what is committed until then.
        """
        return (
            self.is_leader
            and state.leader_epoch == self.leader_epoch
            and state.partition_epoch == self.partition_epoch
            and frozenset(state.isr) == self.isr
        )

    def _take_replicas(self, replicas: tuple[int, ...]) -> None:
        self.replicas = replicas
        others = [broker_id for broker_id in replicas if broker_id != self.rules.broker_id]
        known = self.followers
        self.followers = {broker_id: known.get(broker_id) or Follower(broker_id) for broker_id in others}

    def _begin_epoch(self, state: PartitionState, log: LogT, now_ns: int, *, new_leader: bool) -> None:
        # Before any append: a follower may request the end of an epoch in which nothing was written.
        start_offset = log.end_offset
        log.assign_epoch(state.leader_epoch, start_offset)
        for follower in self.followers.values():
            in_sync = follower.broker_id in state.isr
            follower.begin_epoch(now_ns, start_offset, new_leader=new_leader, in_sync=in_sync)
        self.leader_epoch = state.leader_epoch
        self.leader_epoch_start = start_offset
        self.may_resign = True

    def follow(self, state: PartitionState, log: LogT | None) -> bool:
        """Follow the state's leader, if there is one; returns whether its epoch is new."""
        if state.partition_epoch < self.partition_epoch:
            return False
        self.log = log
        is_new_epoch = state.leader_epoch > self.leader_epoch
        self.is_leader = False
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.leader_epoch_start = None
        self.partition_epoch = state.partition_epoch
        self.replicas = state.replicas
        self.followers = {}
        self._take_isr(())
        self._update_under_min_isr()
        return is_new_epoch

    def lose_log(self) -> None:
        """Its directory failed: the partition is not served from here until the controller decides
        otherwise."""
        self.log = None
        self.is_leader = False
        self.leader = NO_LEADER
        self.leader_epoch_start = None
        self.followers = {}
        self._take_isr(())
        self._update_under_min_isr()

    def set_min_isr(self, min_insync_replicas: int) -> None:
        """From the topic's configuration; a number above that of the replicas means all of them (KIP-966)."""
        self.min_isr = min_insync_replicas
        self._update_under_min_isr()

    @property
    def effective_min_isr(self) -> int:
        return min(self.min_isr, len(self.followers) + 1)

    def _update_under_min_isr(self) -> None:
        self.is_under_min_isr = self.is_leader and len(self.isr) < self.effective_min_isr

    def _take_isr(self, isr: Sequence[int]) -> None:
        self.isr_order = tuple(isr)
        self.isr = self.maximal_isr = frozenset(isr)
        self.leaving = frozenset()
        self.proposal = None

    # Records come in

    def check_acks(self, acks: int) -> None:
        """Called before an append: raises if it could never be acknowledged."""
        if acks == -1 and self.is_under_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {sorted(self.isr)} is insufficient to satisfy the min.isr"
                f" requirement of {self.effective_min_isr} for partition {self.topic}-{self.index}",
            )

    def advance(self, now_ns: int) -> bool:
        """Called after an append, a follower's fetch or a new ISR: advance the high watermark; returns
        whether it advanced."""
        log = self.log
        if log is None or self.is_under_min_isr:
            return False
        offset = log.end_offset
        if self.followers:
            offset = self._least_end_offset(offset, now_ns)
        if self.flush_messages != NEVER_FLUSH:
            offset = min(offset, self.flushed_end(log))
        return offset > log.high_watermark and log.advance_high_watermark(offset)

    def flushed_end(self, log: LogT) -> int:
        """The end of our own log that counts: with flush.messages, up to that many records, less one, may be
        unflushed.

        Apache Kafka flushes before it responds; here the response waits for a flush on a worker.
        """
        return min(log.end_offset, log.recovery_point + self.flush_messages - 1)

    @property
    def awaits_flush(self) -> bool:
        """Whether flush.messages requires a flush before the end of our own log counts."""
        log = self.log
        return (
            self.flush_messages != NEVER_FLUSH and log is not None and self.flushed_end(log) < log.end_offset
        )

    def _least_end_offset(self, leader_end_offset: int, now_ns: int) -> int:
        least = leader_end_offset
        for follower in self.followers.values():
            if follower.end_offset >= least:
                continue
            # Wait for a replica that has caught up and may join: it would never catch a busy leader
            # otherwise.
            if (
                follower.broker_id in self.maximal_isr
                or follower.broker_id in self.leaving
                or (
                    follower.is_caught_up(leader_end_offset, now_ns, self.rules.lag_max_ns)
                    and self._may_join(follower)
                )
            ):
                least = follower.end_offset
        return least

    def acknowledged(self, required_offset: int) -> ErrorCode | None:
        """For acks=all: the result once the whole ISR has everything before this offset, None until then."""
        log = self.log
        if log is None or not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if log.high_watermark < required_offset:
            return None
        in_sync = len(self.maximal_isr)
        if in_sync < self.min_isr and in_sync < self.effective_min_isr:
            # The ISR shrank after the append was accepted.
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    # Followers fetch

    def follower(self, broker_id: int, *, knows_epoch: bool) -> Follower:
        """The fetching replica; raises if it is not one of the partition's."""
        follower = self.followers.get(broker_id)
        if follower is None:
            code = ErrorCode.UNKNOWN_LEADER_EPOCH if knows_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
            raise KafkaError(
                code,
                f"Replica {broker_id} is not recognized as a valid replica of {self.topic}-{self.index}"
                f" in leader epoch {self.leader_epoch} with partition epoch {self.partition_epoch}",
            )
        return follower

    def follower_fetched(
        self,
        follower: Follower,
        offset: int,
        *,
        log_start_offset: int,
        broker_epoch: int,
        now_ns: int,
    ) -> bool:
        """A follower fetches from an offset on; returns whether the high watermark advanced.

        It may now be eligible for the ISR: see `proposal`.
        """
        assert self.log is not None, "followers are served from a log"
        moved = offset != follower.end_offset
        follower.fetched(offset, log_start_offset, broker_epoch, self.log.end_offset, now_ns)
        self._maybe_propose_joining(follower)
        return moved and self.advance(now_ns)

    def note_news(self) -> None:
        """Something has changed that followers must learn: their next fetches look at this partition.

        Fetches since it was last looked at were those of a follower that had everything.
        """
        for cached in self.watchers:
            session = cached.session
            if cached.key not in session.news:
                session.news[cached.key] = cached
                follower = self.followers.get(session.replica_id)
                if follower is not None and session.replica_id in self.isr:
                    follower.was_caught_up(session.last_used_ns)

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset over all live replicas: what is deleted everywhere
        (DeleteRecords)."""
        assert self.log is not None, "a leader has a log"
        least = self.log.log_start_offset
        for follower in self.followers.values():
            if follower.log_start_offset < least and self.rules.is_alive(follower.broker_id):
                least = follower.log_start_offset
        return least

    # The ISR changes

    def _may_join(self, follower: Follower) -> bool:
        epoch = follower.broker_epoch
        return epoch is not None and self.rules.is_eligible(follower.broker_id, epoch)

    def _maybe_propose_joining(self, follower: Follower) -> None:
        """A replica that has all committed records, and all before this leader's epoch, may join."""
        if self.proposal is not None or follower.broker_id in self.isr:
            return
        assert self.log is not None, "followers are served from a log"
        start = self.leader_epoch_start
        if start is None or follower.end_offset < max(start, self.log.high_watermark):
            return
        if self._may_join(follower):
            joined = (*self.isr_order, follower.broker_id)
            self._propose(joined)
            # Already counted: if the controller rejects it, we were only too cautious.
            self.maximal_isr = frozenset(joined)

    def propose_leaving(self, now_ns: int) -> bool:
        """Each half of replica.lag.time.max.ms: propose to remove lagging replicas from the ISR; returns
        whether any is proposed."""
        log = self.log
        if not self.is_leader or log is None or self.proposal is not None:
            return False
        lagging = [
            broker_id
            for broker_id in self.isr_order
            if broker_id != self.rules.broker_id and not self._is_in_time(broker_id, log.end_offset, now_ns)
        ]
        if not lagging:
            return False
        logger.info("%r: %s leave the ISR %s", self, lagging, sorted(self.isr))
        # Still counted until the controller agrees: otherwise we would commit records on our own decision.
        self._propose([broker_id for broker_id in self.isr_order if broker_id not in lagging])
        return True

    def propose_removing(self, broker_id: int) -> bool:
        """Propose an ISR without this replica, however far it is; returns whether it was proposed."""
        if not self.is_leader or self.proposal is not None or broker_id not in self.isr:
            return False
        if broker_id == self.rules.broker_id:
            return False
        self._propose([each for each in self.isr_order if each != broker_id])
        return True

    def propose_resigning(self) -> bool:
        """A write was refused for lack of space: propose that the rest of the ISR goes on; returns whether.

        Only if it can: an ISR below min.insync.replicas would refuse writes, too, and have one copy less.
        """
        rest = [broker_id for broker_id in self.isr_order if broker_id != self.rules.broker_id]
        if not self.is_leader or self.proposal is not None or not self.may_resign:
            return False
        if not rest or len(rest) < self.effective_min_isr:
            return False
        logger.warning("%r: resigning, %s can take writes", self, sorted(rest))
        self._propose(rest)
        return True

    def _is_in_time(self, broker_id: int, end_offset: int, now_ns: int) -> bool:
        follower = self.followers.get(broker_id)
        return follower is not None and follower.is_caught_up(end_offset, now_ns, self.rules.lag_max_ns)

    def _propose(self, isr: Sequence[int]) -> None:
        pairs = tuple((broker_id, self._epoch_of(broker_id)) for broker_id in isr)
        self.proposal = Proposal(pairs, self.leader_epoch, self.partition_epoch)

    def _epoch_of(self, broker_id: int) -> int:
        follower = self.followers.get(broker_id)
        if follower is None or follower.broker_epoch is None:
            return NO_BROKER_EPOCH
        return follower.broker_epoch

    def refused(self, proposal: Proposal, error: ErrorCode) -> bool:
        """The controller rejected the proposal; returns whether to send the same again."""
        if (
            proposal is self.proposal
            and error is ErrorCode.INVALID_REQUEST
            and all(broker_id != self.rules.broker_id for broker_id, _ in proposal.isr)
        ):
            self.may_resign = False
            self.proposal = None
            return False
        if proposal is not self.proposal or error in _WAIT_FOR_METADATA:
            return False
        if error in _NOT_DONE:
            # These two errors mean that our epoch is right and nothing was changed: our state is known.
            self.maximal_isr = self.isr
            self.proposal = None
            return False
        logger.warning("%r: the controller rejected %s with %s; retrying", self, proposal, error.name)
        return True

    def agreed(
        self, proposal: Proposal, isr: Sequence[int], leader_epoch: int, partition_epoch: int, now_ns: int
    ) -> bool:
        """The controller accepted the proposal; returns whether the high watermark advanced."""
        if proposal is not self.proposal:
            return False  # a delta has brought a newer state meanwhile
        if leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch:
            return False
        leaving = self.leaving | self.isr
        self._take_isr(isr)
        if self.rules.isr_is_in_image:
            self.leaving = leaving - self.isr
        self.partition_epoch = partition_epoch
        self._update_under_min_isr()
        return self.advance(now_ns)
