"""Wrong variants of rules, written from the rules' own code before the scenario and its checkers existed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from barnabas.base.ids import Uuid
from barnabas.controller.brokers import brokers
from barnabas.controller.replication import partition_change
from barnabas.controller.replication.elections import leader_and_isr_updates
from barnabas.controller.state import ControllerState
from barnabas.metadata.topics import Partition as PartitionState
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.schema import Message
from barnabas.replica.fetching import fetcher
from barnabas.replica.fetching.truncation import LogWithEpochs, TruncationPoint
from barnabas.replica.follower_state import Follower
from barnabas.replica.partition import Partition, Proposal
from barnabas.runtime.planted import patched
from barnabas.storage.log.leader_epochs import UNDEFINED_END, EpochEnd, LeaderEpochs
from barnabas.storage.log.log import Log
from barnabas.testing.simulation.registry import planted

SCENARIO = "replicas"
WITHIN_SEEDS = 300

Plant = Callable[[], Iterator[None]]
Asked = dict[tuple[Uuid, int], tuple[Partition[Log], Proposal]]


def _planted(name: str, first_seed: int = 0) -> Callable[[Plant], Plant]:
    """`first_seed`: one that shows it."""
    return planted(
        f"replicas, blind: {name}", scenario=SCENARIO, within_seeds=WITHIN_SEEDS, first_seed=first_seed
    )


@_planted("a shrink counts before the controller agrees")
def shrinks_alone() -> Iterator[None]:
    """The leader commits without a lagging replica that is still a member of the ISR (KIP-497)."""
    healthy = Partition.propose_leaving

    def propose(self: Partition[Log], now_ns: int) -> bool:
        is_proposed = healthy(self, now_ns)
        if is_proposed and self.proposal is not None:
            self.maximal_isr = frozenset(broker_id for broker_id, _ in self.proposal.isr)
        return is_proposed

    with patched(Partition, "propose_leaving", propose):
        yield


@_planted("a leader that returns remembers how far its followers were", 445)
def remembers_offsets() -> Iterator[None]:
    """Others have led since, and its followers may have truncated what they had."""
    healthy = Follower.begin_epoch

    def begin(self: Follower, now_ns: int, end_offset: int, *, new_leader: bool, in_sync: bool) -> None:
        healthy(self, now_ns, end_offset, new_leader=False, in_sync=in_sync)

    def take_state(self: Partition[Log], state: PartitionState, log: Log | None) -> bool:
        known = self.followers
        is_new = follow(self, state, log)
        self.followers = known
        return is_new

    follow = Partition.follow
    with patched(Follower, "begin_epoch", begin), patched(Partition, "follow", take_state):
        yield


@_planted("a reassignment is complete with its first target")
def first_target_completes() -> Iterator[None]:
    """The old replicas go when one of the new ones is in sync."""

    def completed(
        replicas: Sequence[int], isr: Sequence[int], removing: Sequence[int], adding: Sequence[int]
    ) -> tuple[list[int], list[int]] | None:
        final = [replica for replica in replicas if replica not in removing]
        in_sync = [replica for replica in isr if replica in final]
        is_complete = (removing or adding) and any(replica in in_sync for replica in adding or final)
        return (final, final) if is_complete else None

    with patched(partition_change, "completed", completed):
        yield


@_planted("every stop is clean")
def every_stop_is_clean() -> Iterator[None]:
    """A broker that lost power comes back, and stays eligible with what its disk has kept (KIP-966)."""

    def handle(
        state: ControllerState, request: BrokerRegistrationRequest, existing: object, version: int
    ) -> list[Message]:
        broker_id = request.broker_id
        return leader_and_isr_updates(state, state.in_isr(broker_id), broker_to_remove=broker_id)

    with patched(brokers, "_handle_shutdown", handle):
        yield


@_planted("a follower looks at the leader's end offset alone")
def leader_end_alone() -> Iterator[None]:
    """It truncates to where the leader's epoch ends, and not to where its own one does (KIP-279)."""

    def point(log: LogWithEpochs, epoch: int, end_offset: int) -> TruncationPoint:
        return TruncationPoint(min(end_offset, log.end_offset), is_final=True)

    with patched(fetcher, "truncation_point", point):
        yield


@_planted("an epoch that the leader does not know has no end")
def unknown_epoch_has_no_end() -> Iterator[None]:
    """Of epochs in between, which the leader never saw, the follower keeps its records (KAFKA-6361)."""
    healthy = LeaderEpochs.end_offset_for

    def end_offset_for(self: LeaderEpochs, epoch: int, log_end_offset: int) -> EpochEnd:
        if epoch >= 0 and all(entry.epoch != epoch for entry in self.entries):
            return EpochEnd(epoch, log_end_offset)
        return healthy(self, epoch, log_end_offset) if epoch >= 0 else UNDEFINED_END

    with patched(LeaderEpochs, "end_offset_for", end_offset_for):
        yield
