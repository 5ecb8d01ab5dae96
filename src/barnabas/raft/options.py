"""The timeouts of a quorum (`controller.quorum.*`)."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.base.units import NS_PER_MS


@dataclass(frozen=True, slots=True)
class QuorumOptions:
    """Names and defaults are those of Apache Kafka."""

    election_timeout_ns: int = 1000 * NS_PER_MS
    fetch_timeout_ns: int = 2000 * NS_PER_MS
    election_backoff_max_ns: int = 1000 * NS_PER_MS
    request_timeout_ns: int = 2000 * NS_PER_MS
    retry_backoff_ns: int = 20 * NS_PER_MS
    # How long a fetch waits at the leader for records.
    fetch_max_wait_ns: int = 500 * NS_PER_MS
    # Addresses to find the quorum at; the ids are negative, as the nodes behind them are not known.
    bootstrap_ids: tuple[int, ...] = ()
    # `controller.quorum.auto.join.enable` of a controller: as an observer it adds itself to the voters.
    auto_join: bool = False

    @property
    def check_quorum_timeout_ns(self) -> int:
        """A leader that no majority has fetched from for this long resigns (KAFKA-15489)."""
        return self.fetch_timeout_ns * 3 // 2

    @property
    def begin_epoch_interval_ns(self) -> int:
        """How often a leader announces itself to voters that do not fetch."""
        return self.fetch_timeout_ns // 2

    @property
    def update_voter_interval_ns(self) -> int:
        """How often a voter compares the voters record with itself, and an observer tries to join."""
        return self.fetch_timeout_ns
