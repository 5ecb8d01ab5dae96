"""Wrong variants of rules, chosen from the rules' own code before the checkers were read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.base.errors import ErrorCode
from barnabas.controller.replication.partition_change import PartitionChange
from barnabas.replica.partition import Partition
from barnabas.runtime.planted import patched
from barnabas.storage.log.log import Log
from barnabas.testing.simulation.registry import planted

WITHIN_SEEDS = 60

Plant = Callable[[], Iterator[None]]


def _planted(name: str, first_seed: int) -> Callable[[Plant], Plant]:
    """`first_seed`: one that shows it."""
    return planted(
        f"replication, blind: {name}",
        scenario="replication",
        within_seeds=WITHIN_SEEDS,
        first_seed=first_seed,
    )


@_planted("a deposed leader acknowledges what its log has at that offset", 3)
def deposed_acknowledges() -> Iterator[None]:
    """Records of another leader may stand there by now."""

    def acknowledged(self: Partition[Log], required_offset: int) -> ErrorCode | None:
        log = self.log
        if log is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE if log.high_watermark >= required_offset else None

    with patched(Partition, "acknowledged", acknowledged):
        yield


@_planted("a replica that crashed stays eligible", 184)
def crashed_is_eligible() -> Iterator[None]:
    """It joins the ELR with the log that a power loss has left (KIP-966)."""
    healthy = PartitionChange._update_elr

    def update(self: PartitionChange) -> None:
        stopped, self.unclean_shutdown = self.unclean_shutdown, None
        try:
            healthy(self)
        finally:
            self.unclean_shutdown = stopped

    with patched(PartitionChange, "_update_elr", update):
        yield
