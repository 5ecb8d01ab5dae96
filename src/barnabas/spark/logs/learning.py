"""What the driver learns from batch to batch: the templates of each source, the newest time, and how many
lines were readable.

The state after a batch is a file beside the checkpoint, so that a batch which is repeated after a failure
finds the state before it and comes to the same result.

    checkpoints/logs/templates/12.json    after batch 12 of the query `parsed`
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from barnabas.logs.templates import Templates, shape_from

KEPT = 3  # States of the last batches.
FOLDER = "templates"


@dataclass
class Tally:
    """How many lines a run has read, and how many of them no format fitted."""

    lines: int = 0
    unreadable: int = 0
    first_unreadable: str | None = None

    def add(self, lines: int, unreadable: int, first: bytes | None) -> None:
        self.lines += lines
        self.unreadable += unreadable
        if self.first_unreadable is None and first is not None:
            self.first_unreadable = first.decode(errors="replace")

    @property
    def complaint(self) -> str | None:
        """What to say if most lines were unreadable."""
        if self.unreadable * 2 <= self.lines:
            return None
        return (
            f"{self.unreadable:,} of {self.lines:,} lines are unreadable, the first: "
            f"{(self.first_unreadable or '')[:200]}"
        )


@dataclass(frozen=True, slots=True)
class Named:
    """A shape of a source, with its template."""

    source: str
    shape: str
    template: str
    is_new: bool


@dataclass
class Learned:
    """The templates of every source."""

    sources: dict[str, Templates] = field(default_factory=dict)
    # The newest time of all lines so far.
    newest_ms: int | None = None

    def see(self, newest_ms: int | None) -> None:
        if newest_ms is not None:
            self.newest_ms = max(newest_ms, self.newest_ms or newest_ms)

    def learn(self, shapes: Iterable[tuple[str, str]]) -> list[Named]:
        """Take in the shapes of a batch, with their sources.  Nothing is new in a source's first batch."""
        by_source: dict[str, list[str]] = {}
        for source, shape in shapes:
            by_source.setdefault(source, []).append(shape)
        named: list[Named] = []
        for source, keys in sorted(by_source.items()):
            is_first = source not in self.sources
            templates = self.sources.setdefault(source, Templates())
            decoded = [shape_from(key) for key in keys]
            new = templates.learn_shapes(decoded)
            for key, one in zip(keys, decoded, strict=True):
                is_new = not is_first and templates.general(one) in new
                named.append(Named(source, key, templates.template(one), is_new))
        return named

    def to_json(self) -> str:
        sources = {source: templates.state() for source, templates in self.sources.items()}
        return json.dumps({"newest_ms": self.newest_ms, "sources": sources})

    @classmethod
    def from_json(cls, text: str) -> Learned:
        state: Mapping[str, Any] = json.loads(text)
        # Before there were late lines, the sources were all.
        sources = state["sources"] if "newest_ms" in state else state
        return cls(
            {source: Templates.restored(shapes) for source, shapes in sources.items()},
            state.get("newest_ms"),
        )


class Store:
    """The states in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: tuple[int, Learned] | None = None

    def before(self, batch: int) -> Learned:
        """The state before a batch; what comes after it is of an attempt that failed."""
        if self._last is not None and self._last[0] == batch - 1:
            return self._last[1]
        states = [number for number in self._batches() if number < batch]
        if not states:
            return Learned()
        return Learned.from_json(self._path(max(states)).read_text("utf-8"))

    def keep(self, batch: int, learned: Learned) -> None:
        """Written under another name first, so that a state is complete or not there."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(batch)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(learned.to_json(), "utf-8")
        unfinished.replace(path)
        self._last = (batch, learned)
        for number in self._batches():
            if number <= batch - KEPT:
                self._path(number).unlink(missing_ok=True)

    def _batches(self) -> list[int]:
        if not self._folder.is_dir():
            return []
        return [int(path.stem) for path in self._folder.glob("*.json") if path.stem.isdigit()]

    def _path(self, batch: int) -> Path:
        return self._folder / f"{batch}.json"
