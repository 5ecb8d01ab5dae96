"""The faults that a dump finds; collected while dumping and printed at the end, as in Apache Kafka's tool."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

# A broken file can have a fault per entry; this bounds each kind.
MAX_FAULTS_SHOWN = 1000

Pairs = dict[str, list[tuple[int, int]]]


@dataclass(slots=True)
class Faults:
    """Pairs of numbers that disagree, by absolute path."""

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

    def mark_faulty(self, path: str) -> None:
        """Records a file whose fault has already been printed."""
        self.files_at_fault.add(path)

    @property
    def found(self) -> bool:
        """Whether there are faults.  Gaps between offsets are none: compaction leaves them."""
        wrong = (self.index_mismatches, self.time_mismatches, self.times_out_of_order, self.offsets_not_found)
        return bool(self.files_at_fault) or any(wrong)

    def print_all(self) -> None:
        # Newest first for these two, oldest first for the times: the order of Apache Kafka's tool.
        for path, pairs in self.index_mismatches.items():
            _print_error(f"Mismatches in :{path}")
            for offset, found in reversed(pairs):
                _print_error(f"  Index offset: {offset}, log offset: {found}")
        for path, pairs in self.time_mismatches.items():
            _print_error(f"Found timestamp mismatch in :{path}")
            for indexed, found in pairs:
                _print_error(f"  Index timestamp: {indexed}, log timestamp: {found}")
        for path, pairs in self.times_out_of_order.items():
            _print_error(f"Found out of order timestamp in :{path}")
            for indexed, previous in pairs:
                _print_error(f"  Index timestamp: {indexed}, Previously indexed timestamp: {previous}")
        for pairs in self.offsets_not_found.values():
            _print_error("The following indexed offsets are not found in the log.")
            for offset, found in pairs:
                _print_error(f"Indexed offset: {offset}, found log offset: {found}")
        for path, pairs in self.gaps.items():
            _print_error(f"Non-consecutive offsets in {path}")
            for first, second in reversed(pairs):
                _print_error(f"  {first} is followed by {second}")


def _print_error(line: str) -> None:
    print(line, file=sys.stderr)
