"""What a dump finds wrong.  Collected while dumping, told at the end, as Apache Kafka's tool does."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

# A broken file can have a fault per entry; past this many of one kind, more of them say nothing new.
MAX_FAULTS_SHOWN = 1000

Pairs = dict[str, list[tuple[int, int]]]


@dataclass(slots=True)
class Faults:
    """Pairs of numbers that disagree, by absolute file name."""

    index_mismatches: Pairs = field(default_factory=dict)
    time_mismatches: Pairs = field(default_factory=dict)
    times_out_of_order: Pairs = field(default_factory=dict)
    offsets_not_found: Pairs = field(default_factory=dict)
    gaps: Pairs = field(default_factory=dict)
    files_at_fault: set[str] = field(default_factory=set)

    def note(self, kind: Pairs, path: str, first: int, second: int) -> None:
        pairs = kind.setdefault(path, [])
        if len(pairs) < MAX_FAULTS_SHOWN:
            pairs.append((first, second))

    def blame(self, path: str) -> None:
        """Remember a file whose fault was printed where it was found."""
        self.files_at_fault.add(path)

    @property
    def found(self) -> bool:
        """Whether anything is wrong.  Gaps between offsets are not: compaction leaves them."""
        wrong = (self.index_mismatches, self.time_mismatches, self.times_out_of_order, self.offsets_not_found)
        return bool(self.files_at_fault) or any(wrong)

    def print_all(self) -> None:
        # Newest first for these two, oldest first for the times: the order of Apache Kafka's tool.
        for path, pairs in self.index_mismatches.items():
            _say(f"Mismatches in :{path}")
            for offset, found in reversed(pairs):
                _say(f"  Index offset: {offset}, log offset: {found}")
        for path, pairs in self.time_mismatches.items():
            _say(f"Found timestamp mismatch in :{path}")
            for indexed, found in pairs:
                _say(f"  Index timestamp: {indexed}, log timestamp: {found}")
        for path, pairs in self.times_out_of_order.items():
            _say(f"Found out of order timestamp in :{path}")
            for indexed, previous in pairs:
                _say(f"  Index timestamp: {indexed}, Previously indexed timestamp: {previous}")
        for pairs in self.offsets_not_found.values():
            _say("The following indexed offsets are not found in the log.")
            for offset, found in pairs:
                _say(f"Indexed offset: {offset}, found log offset: {found}")
        for path, pairs in self.gaps.items():
            _say(f"Non-consecutive offsets in {path}")
            for first, second in reversed(pairs):
                _say(f"  {first} is followed by {second}")


def _say(line: str) -> None:
    print(line, file=sys.stderr)
