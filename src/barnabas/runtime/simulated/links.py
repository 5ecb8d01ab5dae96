"""Faults between simulated nodes: loss, delay, duplication, reordering, partitions.

Contains the state of every link, and messages.  Byte streams belong in `simulated.streams`, which checks here
whether bytes may pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.agenda import Agenda


@dataclass(slots=True)
class LinkFaults:
    """Quality of the network.  Probabilities are from 0 to 1; delays vary, so messages overtake each
    other."""

    loss: float = 0.0
    duplicate: float = 0.0
    # This fraction of messages takes up to `late_ns` instead of `max_delay_ns`.
    late: float = 0.0
    min_delay_ns: int = 100_000
    max_delay_ns: int = 2 * NS_PER_MS
    late_ns: int = 500 * NS_PER_MS

    @classmethod
    def draw(cls, random: SeededRandom) -> LinkFaults:
        """Each seed has its own network: often good, sometimes very bad (as in swarm testing)."""

        def probability(worst: float) -> float:
            return worst * random.fraction() if random.fraction() < 0.5 else 0.0

        return cls(
            loss=probability(0.3),
            duplicate=probability(0.3),
            late=probability(0.2),
            max_delay_ns=random.integer(1, 20) * NS_PER_MS,
        )


class Links:
    """All links between nodes, each direction separately."""

    def __init__(
        self, agenda: Agenda, random: SeededRandom, deliver: Callable[[int, int, object], None]
    ) -> None:
        self.faults = LinkFaults()
        self.sent = self.lost = 0
        self._agenda = agenda
        self._random = random
        self._deliver = deliver
        self._blocked: set[tuple[int, int]] = set()

    def send(self, sender: int, to: int, message: object) -> None:
        """One message: it may arrive late, twice, after a later one, or not at all."""
        self.sent += 1
        faults = self.faults
        if faults.loss and self._random.fraction() < faults.loss:
            self.lost += 1
            return
        arrive = partial(self._arrive, sender, to, message)
        self._agenda.after(self.delay_ns(), arrive)
        if faults.duplicate and self._random.fraction() < faults.duplicate:
            self._agenda.after(self.delay_ns(), arrive)

    def delay_ns(self) -> int:
        faults = self.faults
        longest_ns = faults.max_delay_ns
        if faults.late and self._random.fraction() < faults.late:
            longest_ns = faults.late_ns
        return faults.min_delay_ns + int(self._random.fraction() * (longest_ns - faults.min_delay_ns))

    def _arrive(self, sender: int, to: int, message: object) -> None:
        if (sender, to) in self._blocked:
            self.lost += 1
            return
        self._deliver(sender, to, message)

    # --------------------------------------------------------------------------------------------- partitions

    def is_blocked(self, sender: int, to: int) -> bool:
        return (sender, to) in self._blocked

    def block(self, sender: int, to: int) -> None:
        """Block this direction; the other is unchanged."""
        self._agenda.note(f"block {sender}>{to}")
        self._blocked.add((sender, to))

    def partition(self, *groups: Collection[int]) -> None:
        """Block all links between nodes of different groups."""
        for group in groups:
            for other in groups:
                if other is not group:
                    for sender in sorted(group):
                        for to in sorted(other):
                            self.block(sender, to)

    def heal(self) -> None:
        """Unblock everything; the faults remain."""
        self._agenda.note("heal")
        self._blocked.clear()
