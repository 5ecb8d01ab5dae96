"""From bytes as they are read to lines.

What lives here: cutting at line ends, and the limit of a line's length.  What may not: reading.  Pure.
"""

from __future__ import annotations

# A record of this size passes a broker with the limits that Apache Kafka has by default (1 MiB a batch).
MAX_LINE_BYTES = 1_000_000


class LineCutter:
    """Lines out of chunks; keeps the part of a line that has not ended yet.

    A line longer than `max_line_bytes` is given in pieces of that size: nothing is dropped, and the memory
    for it has a limit.  Line ends are \\n or \\r\\n; they do not belong to the line.
    """

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max = max_line_bytes
        self._rest = b""

    @property
    def waiting_bytes(self) -> int:
        """How much of the last line is there without its end."""
        return len(self._rest)

    def cut(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk."""
        *whole, rest = (self._rest + chunk).split(b"\n")
        lines = [self._trimmed(line) for line in whole]
        if any(len(line) > self._max for line in lines):
            lines = [piece for line in lines for piece in self._pieces(line)]
        while len(rest) > self._max:
            lines.append(rest[: self._max])
            rest = rest[self._max :]
        self._rest = rest
        return lines

    def end(self) -> list[bytes]:
        """The last line, if it had no end: there will be no more."""
        rest, self._rest = self._rest, b""
        return [self._trimmed(rest)] if rest else []

    def forget(self) -> None:
        """What waited belongs to nothing that follows."""
        self._rest = b""

    @staticmethod
    def _trimmed(line: bytes) -> bytes:
        return line[:-1] if line.endswith(b"\r") else line

    def _pieces(self, line: bytes) -> list[bytes]:
        return [line[start : start + self._max] for start in range(0, max(len(line), 1), self._max)]
