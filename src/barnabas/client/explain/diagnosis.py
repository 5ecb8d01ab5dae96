"""What is wrong with a group: a cause, what shows it, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from barnabas.client.model import TopicPartition


class Cause(StrEnum):
    """Why a consumer receives nothing, in order of precedence: a cause hides those after it."""

    DENIED = "denied"
    NO_GROUP = "no group"
    NO_TOPIC = "no topic"
    NO_LEADER = "no leader"
    REBALANCING = "rebalancing"
    BELOW_LOG_START = "committed below log start"
    BEYOND_LOG_END = "committed beyond log end"
    HELD_BY_ISR = "high watermark held"
    OPEN_TRANSACTION = "open transaction"
    UNDECODABLE = "undecodable record"
    NO_MEMBERS = "no members"
    RESET_LATEST = "nothing committed"
    PAUSED = "paused"
    IDLE_MEMBER = "more members than partitions"
    # Nothing prevents it from reading.
    BEHIND = "behind"
    CAUGHT_UP = "caught up"

    @property
    def is_stuck(self) -> bool:
        return self not in (Cause.BEHIND, Cause.CAUGHT_UP)


ORDER = {cause: number for number, cause in enumerate(Cause)}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One cause, with the partitions that it concerns (none: the whole group)."""

    cause: Cause
    summary: str
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
