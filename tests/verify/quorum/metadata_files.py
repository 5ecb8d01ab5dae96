"""The files of a node's metadata log, read from outside: batches, leaders, epochs, snapshots."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barnabas.batch.control import read_quorum_message
from barnabas.batch.view import batches
from barnabas.protocol.records.control import LeaderChangeMessage


@dataclass(frozen=True)
class Batch:
    base_offset: int
    next_offset: int
    content: bytes


def read_log(folder: Path, end: int) -> list[Batch]:
    """The batches below an offset, of all segments; they must follow one another."""
    found: list[Batch] = []
    for segment in sorted(folder.glob("*.log")):
        for batch in batches(segment.read_bytes()):
            if batch.base_offset >= end:
                break
            assert not found or batch.base_offset == found[-1].next_offset, f"a gap in {segment}"
            found.append(Batch(batch.base_offset, batch.next_offset, bytes(batch.copy())))
    return found


def end_of_log(folder: Path) -> int:
    segments = sorted(folder.glob("*.log"))
    if not segments:
        return 0
    end = int(segments[-1].stem)
    for batch in batches(segments[-1].read_bytes()):
        end = batch.next_offset
    return end


def leaders(log: list[Batch]) -> dict[int, LeaderChangeMessage]:
    """Epoch -> the record in which its leader announces itself."""
    found = {}
    for each in log:
        for batch in batches(each.content):
            for record in batch.records() if batch.is_control else ():
                message = read_quorum_message(record)
                if isinstance(message, LeaderChangeMessage):
                    found[batch.leader_epoch] = message
    return found


def epoch_starts(folder: Path) -> dict[int, int]:
    """leader-epoch-checkpoint: epoch -> its first offset."""
    lines = (folder / "leader-epoch-checkpoint").read_text("utf-8").split("\n")
    return {int(epoch): int(offset) for epoch, offset in (line.split() for line in lines[2:] if line)}


def quorum_state(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "quorum-state").read_text("utf-8"))
    return content


def snapshots(folder: Path) -> dict[str, Path]:
    """By name; those that the node has taken or installed, not the empty one of a fresh dynamic quorum."""
    found = {path.name: path for path in sorted(folder.glob("*.checkpoint"))}
    found.pop("00000000000000000000-0000000000.checkpoint", None)
    return found
