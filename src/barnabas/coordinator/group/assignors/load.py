"""Orders the subscribers of a topic by load while partitions are reassigned.

Two ranges grow towards each other: the least loaded members, which receive partitions in turn, and the most
loaded members, which give up partitions in turn.  Once every member of a range had a turn, the level of the
range moves by one and the range includes the members at the new level.  Each turn takes constant time, unlike
with a priority queue.
"""

from __future__ import annotations


class LoadOrder:
    """`loads` is the caller's list, by member index; it changes during use."""

    __slots__ = (
        "_least_end",
        "_least_level",
        "_loads",
        "_members",
        "_most_end",
        "_most_level",
        "_most_start",
        "_next_least",
        "_next_most",
        "imbalance",
    )

    def __init__(self, members: list[int], loads: list[int]) -> None:
        self._loads = loads
        self._members = sorted(members, key=lambda member: (loads[member], member))
        lowest, highest = loads[self._members[0]], loads[self._members[-1]]
        self.imbalance = highest - lowest
        # The least loaded members are [0, _least_end); the range is still empty.
        self._least_end = 0
        self._least_level = lowest - 1
        self._next_least = 0
        # The most loaded members are [_most_start, _most_end); those after it have nothing to give up.
        self._most_start = self._most_end = len(self._members)
        self._most_level = highest + 1
        self._next_most = len(self._members) - 1

    def is_balanced(self) -> bool:
        return self._most_level - self._least_level <= 1

    def next_least_loaded(self) -> int:
        """The member that receives the next partition."""
        members, loads = self._members, self._loads
        if self._next_least >= self._least_end:
            self._least_level += 1
            while self._least_end < len(members) and loads[members[self._least_end]] == self._least_level:
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return members[self._next_least - 1]

    def next_most_loaded(self) -> int | None:
        """The member that gives up the next partition; None if no member can."""
        members, loads = self._members, self._loads
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                # The whole range was excluded: continue with the level of the next member.
                self._most_level = loads[members[self._most_start - 1]]
            else:
                self._most_level -= 1
            while self._most_start > 0 and loads[members[self._most_start - 1]] == self._most_level:
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return None
        self._next_most -= 1
        return members[self._next_most + 1]

    def exclude_most_loaded(self) -> None:
        """Remove the last returned member from the range because it has no partition to give up."""
        index, last = self._next_most + 1, self._most_end - 1
        members = self._members
        members[index], members[last] = members[last], members[index]
        self._most_end -= 1
