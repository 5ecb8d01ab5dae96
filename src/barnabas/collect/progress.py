"""Which chunks of a source are acknowledged, without gaps.  Pure."""

from __future__ import annotations

from collections import deque


class SentLines:
    """Lines that were sent together; `position` is where their source stands after them."""

    __slots__ = ("is_written", "position")

    def __init__(self, position: int) -> None:
        self.position = position
        self.is_written = False


class Progress:
    """The position up to which everything is acknowledged, in whatever order acknowledgements arrive."""

    def __init__(self, position: int) -> None:
        self.written = position
        self._sent: deque[SentLines] = deque()

    @property
    def is_all_written(self) -> bool:
        return not self._sent

    def send(self, position: int) -> SentLines:
        sent = SentLines(position)
        self._sent.append(sent)
        return sent

    def acknowledge(self, sent: SentLines) -> bool:
        """Whether the written position moved."""
        sent.is_written = True
        before = self.written
        while self._sent and self._sent[0].is_written:
            self.written = self._sent.popleft().position
        return self.written != before
