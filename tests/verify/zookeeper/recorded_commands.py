"""The command lines of golden/cli/zk-3.9.1, and what may differ when they are typed again.

Ids, times, ports, folders and sizes are each cluster's own, and so is where replicas are placed, which Apache
Kafka draws by lot.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

_UUID = re.compile(r"(?<=TopicId: )\S+|(?<=id: )[A-Za-z0-9_-]{22}\b|(?<=Cluster ID: )\S+")
_PLACES = re.compile(r"(Leader|Replicas|Isr): [\d,]+")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}[,.:]\d+")
_MEMBER = re.compile(r"(?<=-)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# The lowest versions are those of Apache Kafka 4, which removed older ones (KIP-896), in both modes.
_LOWEST = re.compile(r"^(\t\w+\(\d+\): )\d+ to (?=\d)")
_END_OF_OFFSETS = re.compile(r"^(__consumer_offsets:\d+):\d+$")
_ELECTED = re.compile(r"^(Successfully completed leader election \(PREFERRED\) for partitions )(.*)$")
_PORT = re.compile(r"localhost:213(0\d)")
# `cluster up` has its brokers listen at the address, which is as long as the name.
_ADDRESS = re.compile(r"\b127\.0\.0\.1(?=:\d)")
_STACK = re.compile(r"^\s+(at |\.\.\. \d+ more)")
# What a client of Java says of brokers that are down: which ones it tries first is chance.
_TRIED = re.compile(
    r" WARN \[\w+ clientId=\S+\] (Connection to node|Bootstrap broker|Got error produce response)"
)
FOLDER = "/tmp/cluster"


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

    @property
    def only_asks(self) -> bool:
        """It may be asked again until the cluster has come to the recorded state."""
        return not {"--describe", "--list", "--verify"}.isdisjoint(self.words)


def recorded(file: Path, ports: Mapping[int, int], folder: Path) -> Iterator[Recorded]:
    """The commands of a file; broker N listens at `ports[N]`, and files are in this folder."""
    text = _PORT.sub(lambda found: f"localhost:{ports[int(found[1])]}", file.read_text("utf-8"))
    for part in re.split(r"^\$ ", text.replace(FOLDER, str(folder)), flags=re.M)[1:]:
        line, _, printed = part.partition("\n")
        given, piped, command = line.rpartition(" | ") if line.startswith("printf ") else ("", "", line)
        data = shlex.split(given)[1].encode().decode("unicode_escape") if piped else ""
        yield Recorded(data, tuple(shlex.split(command)), printed.strip("\n"))


def comparable(printed: str, *, is_placed: bool) -> list[str]:
    """The lines without what is each cluster's own, and without stack traces; `is_placed`: replicas are where
    they were when this was recorded."""
    lines = []
    for line in printed.replace("[exit ", "\n[exit ").splitlines():
        if _STACK.match(line) or _TRIED.search(line):
            continue
        if line.startswith('{"brokers":'):
            line = _log_dirs(json.loads(line))
        for pattern, shown in ((_UUID, "ID"), (_TIME, "TIME"), (_MEMBER, "MEMBER")):
            line = pattern.sub(shown, line)
        line = _ADDRESS.sub("localhost", line)
        line = _LOWEST.sub(r"\1", line)
        line = _END_OF_OFFSETS.sub(r"\1:END", line)
        line = _ELECTED.sub(lambda found: f"{found[1]}{sorted(found[2].split(', '))}", line)
        lines.append((line if is_placed else _PLACES.sub(r"\1: …", line)).rstrip())
    return lines


def _log_dirs(described: dict[str, Any]) -> str:
    """Which broker has which replicas, in one log directory."""
    found = {}
    for broker in described["brokers"]:
        (log_dir,) = broker["logDirs"]
        replicas = sorted(
            (replica["partition"], replica["offsetLag"], replica["isFuture"])
            for replica in log_dir["partitions"]
        )
        found[broker["broker"]] = [log_dir["error"], *replicas]
    return json.dumps(found)
