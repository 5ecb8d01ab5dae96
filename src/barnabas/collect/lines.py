"""Splitting bytes into lines, with a limit on a line's length.  Pure."""

from __future__ import annotations

# A record of this size is accepted by a broker with Apache Kafka's default limits (1 MiB per batch).
MAX_LINE_BYTES = 1_000_000


class LineCutter:
    """Splits chunks into lines; keeps an incomplete line.

    A line longer than `max_line_bytes` is returned in pieces of that size: nothing is dropped, and memory is
    bounded.  Line ends are \\n or \\r\\n; they are not part of the line.
    """

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max = max_line_bytes
        self._incomplete = b""

    @property
    def waiting_bytes(self) -> int:
        """The size of the incomplete line."""
        return len(self._incomplete)

    def cut(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in this chunk."""
        *whole, rest = (self._incomplete + chunk).split(b"\n")
        lines = [self._trimmed(line) for line in whole]
        if any(len(line) > self._max for line in lines):
            lines = [piece for line in lines for piece in self._pieces(line)]
        while len(rest) > self._max:
            lines.append(rest[: self._max])
            rest = rest[self._max :]
        self._incomplete = rest
        return lines

    def end(self) -> list[bytes]:
        """Return the last line if it is incomplete: no more data will follow."""
        rest, self._incomplete = self._incomplete, b""
        return [self._trimmed(rest)] if rest else []

    def forget(self) -> None:
        """Drop the incomplete line."""
        self._incomplete = b""

    @staticmethod
    def _trimmed(line: bytes) -> bytes:
        return line[:-1] if line.endswith(b"\r") else line

    def _pieces(self, line: bytes) -> list[bytes]:
        return [line[start : start + self._max] for start in range(0, max(len(line), 1), self._max)]
