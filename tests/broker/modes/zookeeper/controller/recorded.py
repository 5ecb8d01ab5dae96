"""What Apache Kafka 3.9.1 wrote, step by step: the trees of znodes and the transactions, made comparable."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from barnabas.broker.modes.zookeeper.znodes import paths

RECORDED = Path(__file__).parents[4] / "data" / "zookeeper" / "apache-kafka-3.9.1.tar.gz"
# What the controller writes; options, quotas, users and ACLs are written by the brokers.
OF_THE_CONTROLLER = (
    paths.TOPICS,
    paths.ADMIN,
    paths.CONTROLLER,
    paths.CONTROLLER_EPOCH,
    paths.FEATURE,
    paths.PRODUCER_IDS,
    paths.ISR_CHANGES,
    paths.LOG_DIR_EVENTS,
)
_DIFFERENT_EACH_TIME = re.compile(r'"(timestamp|topic_id)":"[^"]*"')
_LINE = re.compile(r"\+\d+ ms  (s\d+)  (.*)")
_OPERATION = re.compile(
    r"(check|create|set|delete)( \(ephemeral\))? (\S+)(?: version (\d+))?(?:  (.*?))?(?:  -> version \d+)?"
)


class Seen(NamedTuple):
    """The data of a znode, and how often it was set."""

    data: str | None
    version: int


def comparable(data: str | None) -> str | None:
    return None if data is None else _DIFFERENT_EACH_TIME.sub(r'"\1":"…"', data)


def is_compared(path: str) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in OF_THE_CONTROLLER)


def _read(name: str) -> str:
    with tarfile.open(RECORDED) as archive:
        member = archive.extractfile(name)
        assert member is not None
        return member.read().decode()


def recorded_znodes(step: str) -> dict[str, Any]:
    """All znodes after this step, as they were saved."""
    znodes: dict[str, Any] = json.loads(_read(f"{step}.json"))
    return znodes


def recorded_tree(step: str) -> dict[str, Seen]:
    """The compared znodes after this step."""
    return {
        path: Seen(comparable(znode["data"]), znode["version"])
        for path, znode in recorded_znodes(step).items()
        if is_compared(path)
    }


def recorded_headings() -> list[str]:
    """What was done, in order: commands, and in words what was no command."""
    return [line[2:] for line in _read("transactions.txt").splitlines() if line.startswith("# ")]


def recorded_in_order() -> Iterator[tuple[str, tuple[str, ...]]]:
    """The heading of the step with each transaction that succeeded, as its operations."""
    for heading, operations in _transactions(_read("transactions.txt")):
        if operations and not any(line.startswith("error") for line in operations):
            written = tuple(_operation(line) for line in operations)
            if all(written) and is_compared(written[-1].split(" ")[1]):
                yield heading, written


def _transactions(text: str) -> Iterator[tuple[str, list[str]]]:
    heading, multi = "", []
    for line in text.splitlines():
        if line.startswith("# "):
            heading = line[2:]
        elif line.startswith("      "):
            multi.append(line.strip())
        else:
            if multi:
                yield heading, multi
                multi = []
            match = _LINE.fullmatch(line)
            if match is not None and match[2] != "multi":
                yield heading, [match[2]]
    if multi:
        yield heading, multi


def _operation(line: str) -> str:
    match = _OPERATION.fullmatch(line)
    if match is None:
        return ""
    kind, _, path, _, data = match.groups()
    if kind == "check":
        return f"check {path}"
    if kind == "delete":
        return f"delete {path}"
    return f"{kind} {path} {comparable(data) or '(null)'}"
