"""The subscribers of a topic between the least and the most loaded, while partitions are handed around.

Two ranges grow towards each other: the least loaded members, who are given a partition each in turn, and the
most loaded, who give one up each in turn.  Once every member of a range had its turn, the range's level has
moved by one and takes in the members that stand on the new level.  Both take turns in constant time, which a
queue sorted by load could not.
"""

from __future__ import annotations


class LoadOrder:
    """`loads` is the caller's list, by member number; it changes while this is in use."""

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
        # The least loaded are [0, _least_end); nobody is in the range yet.
        self._least_end = 0
        self._least_level = lowest - 1
        self._next_least = 0
        # The most loaded are [_most_start, _most_end); those behind have nothing to give up.
        self._most_start = self._most_end = len(self._members)
        self._most_level = highest + 1
        self._next_most = len(self._members) - 1

    def is_balanced(self) -> bool:
        return self._most_level - self._least_level <= 1

    def next_least_loaded(self) -> int:
        """Who is to be given a partition."""
        members, loads = self._members, self._loads
        if self._next_least >= self._least_end:
            self._least_level += 1
            while self._least_end < len(members) and loads[members[self._least_end]] == self._least_level:
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return members[self._next_least - 1]

    def next_most_loaded(self) -> int | None:
        """Who is to give one up; None: nobody can."""
        members, loads = self._members, self._loads
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                # All of the range were excluded: go down to the level of the next, however far that is.
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
        """The one that was named last has nothing to give up: it leaves the range."""
        place, last = self._next_most + 1, self._most_end - 1
        members = self._members
        members[place], members[last] = members[last], members[place]
        self._most_end -= 1
