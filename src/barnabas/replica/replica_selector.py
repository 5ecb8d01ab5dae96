"""Which replica a consumer should read from (KIP-392): one in its own rack, if the leader is in another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.config.errors import ConfigError

LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
KNOWN_SELECTORS = (LEADER_SELECTOR, RACK_AWARE_SELECTOR)


def selects_by_rack(selector_class: str | None) -> bool:
    """Whether `replica.selector.class` is the selector by racks; raises ConfigError for an unknown one."""
    if selector_class is not None and selector_class not in KNOWN_SELECTORS:
        known = ", ".join(KNOWN_SELECTORS)
        raise ConfigError(f"replica.selector.class={selector_class} is not known; known are {known}")
    return selector_class == RACK_AWARE_SELECTOR


class ReplicaView(NamedTuple):
    """A replica that has the consumer's offset."""

    broker_id: int
    rack: str | None
    end_offset: int
    since_caught_up_ns: int


def replica_in_rack(rack: str, leader: ReplicaView, followers: Iterable[ReplicaView]) -> int | None:
    """The broker to read from; None for the leader.  Of several, the one that is furthest."""
    if not rack or leader.rack == rack:
        return None
    same = [replica for replica in followers if replica.rack == rack]
    if not same:
        return None
    return max(same, key=lambda one: (one.end_offset, -one.since_caught_up_ns, one.broker_id)).broker_id
