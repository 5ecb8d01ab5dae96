"""The checkpoint of a pipeline: a folder per sink, written by Spark, and the owner of the checkpoint.

Contains reading Spark's logs of offsets and commits, `pipeline.json` beside them, and the locks of running
queries. All of this works without a session.

    checkpoints/orders/pipeline.json      the pipeline, and what each of its sinks reads
    checkpoints/orders/counts.lock        held while the query runs
    checkpoints/orders/counts/offsets/12  the offsets of batch 12, written before it begins
    checkpoints/orders/counts/commits/12  written when batch 12 has ended
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from barnabas.spark.pipeline.definition import PipelineError
from barnabas.spark.topic_ids import IDS

IDENTITY = "pipeline.json"
# Spark's own logs are small; a larger file is something else.
MAX_LOG_BYTES = 16 * 1024 * 1024
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):(//)?")

Offsets = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Done:
    """The progress of a query, according to its checkpoint."""

    # The last completed batch, and the last started one; None if there is none.
    batch: int | None = None
    begun: int | None = None
    # When the last batch was completed, in milliseconds since 1970.
    done_ms: int | None = None
    # Per source the end offsets of the last completed batch; None for other kinds of sources.
    sources: tuple[Offsets | None, ...] = ()
    watermark_ms: int | None = None

    @property
    def offsets(self) -> Offsets:
        """Return offsets by topic and partition; if two sources read the same, those of the slower one."""
        merged: Offsets = {}
        for source in self.sources:
            for topic, partitions in (source or {}).items():
                known = merged.setdefault(topic, {})
                for partition, offset in partitions.items():
                    known[partition] = min(offset, known.get(partition, offset))
        return merged


@dataclass(frozen=True, slots=True)
class Identity:
    """The owner of a checkpoint."""

    pipeline: str
    # What each sink's query reads: names of sources, with topics if known.
    sinks: Mapping[str, Sequence[str]] = field(default_factory=dict)


def local_folder(checkpoint: str) -> Path | None:
    """Return the folder on this machine; None if it is remote, so that only Spark itself can access it."""
    scheme = _SCHEME.match(checkpoint)
    if scheme is None:
        return Path(checkpoint)
    return Path(checkpoint[scheme.end() :]) if scheme.group(1) == "file" else None


# Spark's files ----------------------------------------------------------------------------------------------


def read_done(folder: Path) -> Done:
    """Return the progress of the query with this checkpoint."""
    begun, batch = (_last(folder / name) for name in ("offsets", "commits"))
    if batch is None:
        return Done(begun=begun)
    commit = folder / "commits" / str(batch)
    facts, sources = _offset_log(folder / "offsets" / str(batch))
    following = _json_lines(commit)
    watermark = facts.get("batchWatermarkMs")
    if following and isinstance(following[0], dict):
        watermark = following[0].get("nextBatchWatermarkMs", watermark)
    return Done(
        batch=batch,
        begun=begun,
        done_ms=int(commit.stat().st_mtime * 1_000),
        sources=sources,
        watermark_ms=watermark or None,
    )


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A batch of the log: when it began and ended, and how many records it read, as far as that is known."""

    number: int
    begun_ms: int | None
    done_ms: int
    records: int | None


def batches_done(folder: Path, most: int) -> list[BatchDone]:
    """The last batches of the query with this checkpoint; Spark keeps about a hundred of them."""
    commits = folder / "commits"
    numbers = sorted(int(name) for name in os.listdir(commits) if name.isdigit()) if commits.is_dir() else []
    found = []
    for number in numbers[-most:]:
        facts, sources = _offset_log(folder / "offsets" / str(number))
        _, before = _offset_log(folder / "offsets" / str(number - 1))
        done_ms = int((commits / str(number)).stat().st_mtime * 1_000)
        found.append(BatchDone(number, facts.get("batchTimestampMs"), done_ms, _between(before, sources)))
    return found


def _between(before: Sequence[Offsets | None], after: Sequence[Offsets | None]) -> int | None:
    """The records between the ends of two batches; None if a source has other offsets."""
    if len(before) != len(after) or None in before or None in after:
        return None
    return sum(
        offset - (earlier or {}).get(topic, {}).get(partition, 0)
        for earlier, later in zip(before, after, strict=True)
        for topic, partitions in (later or {}).items()
        for partition, offset in partitions.items()
    )


def _last(folder: Path) -> int | None:
    """Return the highest number of a file in this log."""
    numbers = [int(name) for name in os.listdir(folder) if name.isdigit()] if folder.is_dir() else []
    return max(numbers, default=None)


def _offset_log(path: Path) -> tuple[dict[str, Any], tuple[Offsets | None, ...]]:
    lines = _json_lines(path)
    facts = lines[0] if lines and isinstance(lines[0], dict) else {}
    return facts, tuple(_offsets(line) for line in lines[1:])


def _json_lines(path: Path) -> list[Any]:
    """Return the lines after the version; Spark writes `-` for a source without offsets."""
    if not path.is_file() or path.stat().st_size > MAX_LOG_BYTES:
        return []
    results: list[Any] = []
    for line in path.read_text("utf-8").splitlines()[1:]:
        try:
            results.append(json.loads(line))
        except ValueError:
            results.append(None)
    return results


def _offsets(line: Any) -> Offsets | None:
    """Parse our format, {"topic": {"0": 12}}; other sources have other formats."""
    try:
        return {
            str(topic): {str(partition): int(offset) for partition, offset in partitions.items()}
            for topic, partitions in line.items()
            if topic != IDS
        }
    except (AttributeError, TypeError, ValueError):
        return None


# Owner ------------------------------------------------------------------------------------------------------


def read_identity(folder: Path) -> Identity | None:
    path = folder / IDENTITY
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text("utf-8"))
        sinks = {str(sink): [str(read) for read in reads] for sink, reads in content["sinks"].items()}
        return Identity(str(content["pipeline"]), sinks)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PipelineError(
            f"{path} cannot be read ({error}); delete it if the checkpoints beside it belong to this pipeline"
        ) from error


def claim(folder: Path, pipeline: str, reads: Mapping[str, Sequence[str]]) -> None:
    """Record the owner of this checkpoint; raises PipelineError if it belongs to another pipeline."""
    known = read_identity(folder)
    if known is None:
        _must_be_free(folder)
        known = Identity(pipeline)
    if known.pipeline != pipeline:
        raise PipelineError(
            f"{folder} is the checkpoint of the pipeline {known.pipeline}, not of {pipeline}: "
            "give this one another (--set checkpoint=FOLDER)"
        )
    for sink, now in reads.items():
        before = known.sinks.get(sink)
        if before is not None and sorted(before) != sorted(now) and (folder / sink).is_dir():
            raise PipelineError(
                f"{pipeline}: {sink} reads {_listed(now)}, but its checkpoint {folder / sink} was created "
                f"when it read {_listed(before)}: change it back, or start over with `barnabas pipeline "
                "reset`"
            )
    _write_identity(folder, Identity(pipeline, {**known.sinks, **reads}))


def _must_be_free(folder: Path) -> None:
    if (folder / "metadata").is_file():
        raise PipelineError(
            f"{folder} is the checkpoint of a query that no pipeline started: give this pipeline another one "
            "(--set checkpoint=FOLDER), or move that folder away"
        )


def _listed(reads: Sequence[str]) -> str:
    return " and ".join(sorted(reads)) or "nothing"


def _write_identity(folder: Path, identity: Identity) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"pipeline": identity.pipeline, "sinks": identity.sinks}, indent=2)
    # Written under another name first, so that readers see a complete file.
    unfinished = folder / f"{IDENTITY}.{os.getpid()}"
    unfinished.write_text(text + "\n", "utf-8")
    unfinished.replace(folder / IDENTITY)


def forget(folder: Path, sinks: Sequence[str]) -> None:
    """Delete the folders of these sinks, so that they start over; their output stays."""
    import shutil

    known = read_identity(folder)
    for sink in sinks:
        if (folder / sink).is_dir():
            shutil.rmtree(folder / sink)
    if known is not None:
        kept = {sink: reads for sink, reads in known.sinks.items() if sink not in sinks}
        _write_identity(folder, Identity(known.pipeline, kept))
        if not kept:
            (folder / IDENTITY).unlink()


def mend(folder: Path, sink: str) -> list[str]:
    """Remove what a driver that was killed has half written: Spark refuses to start on it for ever.  A batch
    begins when its offsets are written completely, so that nothing is lost; returns what was removed."""
    query = folder / sink
    offsets, commits = (_last(query / name) for name in ("offsets", "commits"))
    halves = []
    if offsets is not None and (commits is None or commits < offsets):
        path = query / "offsets" / str(offsets)
        if not _is_offset_log(path):
            halves.append(path)
    metadata = query / "metadata"
    if metadata.is_file() and offsets is None and not _is_json(metadata):
        halves.append(metadata)
    for path in halves:
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    return [str(path) for path in halves]


def _is_offset_log(path: Path) -> bool:
    """Whether the version, the metadata and at least one source are there; each is a line of JSON."""
    if path.stat().st_size > MAX_LOG_BYTES:
        return True
    lines = path.read_text("utf-8", errors="replace").splitlines()
    if len(lines) < 3 or not re.fullmatch(r"v\d+", lines[0]):
        return False
    return all(line == "-" or _parses(line) for line in lines[1:])


def _is_json(path: Path) -> bool:
    return path.stat().st_size <= MAX_LOG_BYTES and _parses(path.read_text("utf-8", errors="replace"))


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


# Locks ------------------------------------------------------------------------------------------------------


class Lock:
    """Held by the process that runs a query; the system releases it when that process exits."""

    def __init__(self, folder: Path, sink: str) -> None:
        self._path = folder / f"{sink}.lock"
        self._file: IO[str] | None = None

    def take(self) -> bool:
        """Return whether the lock was acquired."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        opened = self._path.open("a+")
        try:
            # Not lockf: its locks are released when the process closes the file anywhere, as `is_running`
            # does.
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            opened.close()
            return False
        self._file = opened
        return True

    def free(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def is_running(folder: Path, sink: str) -> bool:
    """Whether any process, including this one, runs this query."""
    if not (folder / f"{sink}.lock").is_file():
        return False
    lock = Lock(folder, sink)
    if not lock.take():
        return True
    lock.free()
    return False
