"""The command lines of golden/cli/zk-3.9.1, and what may differ when they are typed again.

Ids, times, ports and folders are each cluster's own, and so is where replicas are placed, which Apache Kafka
draws by lot.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_UUID = re.compile(r"(?<=TopicId: )\S+|(?<=id: )[A-Za-z0-9_-]{22}\b|(?<=Cluster ID: )\S+")
_PLACES = re.compile(r"(Leader|Replicas|Isr): [\d,]+")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}[,.:]\d+")
_MEMBER = re.compile(r"(?<=-)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PORT = re.compile(r"localhost:213(0\d)")
_STACK = re.compile(r"^\s+(at |\.\.\. \d+ more)")


class Recorded(NamedTuple):
    """One command: what is piped into it, its words, and what it prints, ending with its status."""

    given: str
    words: tuple[str, ...]
    printed: str

    @property
    def tool(self) -> str:
        return self.words[0].removeprefix("kafka-").removesuffix(".sh")

    @property
    def line(self) -> str:
        return " ".join(self.words)


def recorded(file: Path, ports: Mapping[int, int]) -> Iterator[Recorded]:
    """The commands of a file; broker N listens at `ports[N]`."""
    text = _PORT.sub(lambda found: f"localhost:{ports[int(found[1])]}", file.read_text("utf-8"))
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        line, _, printed = part.partition("\n")
        given, piped, command = line.rpartition(" | ") if line.startswith("printf ") else ("", "", line)
        data = shlex.split(given)[1].encode().decode("unicode_escape") if piped else ""
        yield Recorded(data, tuple(shlex.split(command)), printed.strip())


def comparable(printed: str) -> list[str]:
    """The lines without what is each cluster's own, and without stack traces."""
    lines = []
    for line in printed.splitlines():
        if _STACK.match(line):
            continue
        for pattern, shown in ((_UUID, "ID"), (_TIME, "TIME"), (_MEMBER, "MEMBER")):
            line = pattern.sub(shown, line)
        lines.append(_PLACES.sub(r"\1: …", line).rstrip())
    return lines
