"""Data folders that our storage wrote, in the hands of Apache Kafka's own software, and the other way round."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.batch.compression import Codec
from tests.verify.killed.log_life import MAX_SEQUENCE, Life, ProducerState, Written
from tests.verify.killed.log_life_writer import CODECS, LifeWriter

EPOCHS = (0, 1, 5, 7)
VERSIONS = ("4.1.0", "3.9.1")
RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) (?:CreateTime|LogAppendTime): (?P<timestamp>-?\d+)"
    r" keySize: (?P<key_size>-?\d+) valueSize: (?P<value_size>-?\d+) sequence: (?P<sequence>-?\d+)"
    r" headerKeys: \[(?P<header_keys>[^]]*)\]"
    r"(?: endTxnMarker: (?P<marker>COMMIT|ABORT) coordinatorEpoch: \d+)?"
    r"(?P<content>.*)"
)
BATCH = re.compile(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*partitionLeaderEpoch: (-?\d+) .*")


class Folder(NamedTuple):
    """A folder of ours after a clean stop, and what was written to it."""

    path: Path
    lives: dict[str, Life]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    path = tmp_path_factory.mktemp("ours")
    writer = LifeWriter(path, EPOCHS)
    lives = writer.write()
    writer.close()
    return Folder(path, lives)


@pytest.fixture
def dump(
    kafka_tool: Callable[..., Any],
    kafka_libs: Callable[[str], Path],
    folder: Folder,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., dict[str, list[str]]]:
    """Apache Kafka's dump-log on all files of a kind: lines by file; anything said of a fault fails the test."""
    monkeypatch.setenv("LC_ALL", "C.UTF-8")  # Java prints in the encoding of the locale

    def run(version: str, kind: str, *options: str) -> dict[str, list[str]]:
        files = sorted(path.relative_to(folder.path) for path in folder.path.glob(f"*/*{kind}"))
        assert files
        kafka_libs(version)  # the first use fetches them, and says so on stderr
        done = kafka_tool(
            version, "dump-log", *options, "--files", ",".join(map(str, files)), cwd=folder.path
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, list[str]] = {}
        for line in done.stdout.splitlines():
            if line.startswith("Dumping "):
                lines = found.setdefault(line.removeprefix("Dumping "), [])
            else:
                lines.append(line)
        assert list(found) == [str(file) for file in files]
        faults = [line for line in done.stderr.splitlines() if not explained(line)]
        assert not faults, "\n".join(faults)
        return found

    return run


def explained(line: str) -> bool:
    """Compaction leaves gaps, of which dump-log speaks on stderr."""
    gap = re.fullmatch(r"Non-consecutive offsets in .*/(compacted|purged)-0/\d+\.log", line)
    return bool(gap or re.fullmatch(r"  \d+ is followed by \d+", line))


def by_topic(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """The lines of each topic's files, in the order of their base offsets."""
    topics: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(found):
        topics[name.split("/")[0].removesuffix("-0")] += found[name]
    return topics


@pytest.mark.parametrize("version", VERSIONS)
def test_dump_log_prints_the_records_that_were_written(
    version: str, folder: Folder, dump: Callable[..., dict[str, list[str]]]
) -> None:
    # M-E1
    found = by_topic(dump(version, ".log", "--deep-iteration", "--print-data-log"))
    assert found.keys() == folder.lives.keys()
    for topic, life in folder.lives.items():
        batches = [line for line in found[topic] if line.startswith("baseOffset:")]
        assert all(line.endswith("isvalid: true") for line in batches), topic
        printed = [match for line in found[topic] if (match := RECORD.fullmatch(line))]
        assert len(printed) + len(batches) + len(life.log.segments) == len(found[topic]), topic
        data = [match for match in printed if match["marker"] is None]
        kept = [r for r in life.written if r.offset >= life.log.segments[0].base_offset]
        assert [described(match) for match in data] == [expected(record) for record in kept], topic
        assert leader_epochs(found[topic]) == [record.leader_epoch for record in kept], topic
        markers = {int(match["offset"]): match["marker"] == "COMMIT" for match in printed if match["marker"]}
        if topic != "purged":
            assert markers == life.markers, topic
        else:
            assert markers.items() < life.markers.items(), topic


def described(match: re.Match[str]) -> tuple[object, ...]:
    numbers = [int(match[name]) for name in ("offset", "timestamp", "key_size", "value_size", "sequence")]
    return *numbers, match["header_keys"], match["content"]


def expected(record: Written) -> tuple[object, ...]:
    key = "" if record.key is None else f" key: {record.key.decode()}"
    value = "" if record.value is None else f" payload: {record.value.decode()}"
    return (
        record.offset,
        record.timestamp,
        -1 if record.key is None else len(record.key),
        -1 if record.value is None else len(record.value),
        record.sequence,
        ",".join(name for name, _ in record.headers),
        key + value,
    )


def leader_epochs(lines: Iterable[str]) -> list[int]:
    """The epoch of each data record, as the line of its batch says."""
    epochs, epoch = [], -1
    for line in lines:
        if batch := BATCH.fullmatch(line):
            epoch = int(batch[4])
        elif line.startswith("|") and "endTxnMarker" not in line:
            epochs.append(epoch)
    return epochs


@pytest.mark.parametrize("topic", CODECS)
def test_the_codec_is_kept(topic: str, folder: Folder) -> None:
    log = folder.path / f"{topic}-0" / f"{0:020}.log"
    assert log.read_bytes()[22] & 7 == Codec[topic.removeprefix("codec-").upper()]


@pytest.mark.trap
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", [".index", ".timeindex"])
def test_dump_log_finds_every_index_sound(
    version: str, kind: str, dump: Callable[..., dict[str, list[str]]]
) -> None:
    """Trap 27: Apache Kafka silently rebuilds bad indexes at start."""
    for name, lines in dump(version, kind, "--index-sanity-check").items():
        assert lines in ([f"{name} passed sanity check."], [f"{name} is empty."]), name
    for name, lines in dump(version, kind, "--verify-index-only").items():
        assert lines in ([], [f"{name} is empty."]), name
    entries = [line for lines in dump(version, kind).values() for line in lines if "is empty" not in line]
    pattern = r"offset: \d+ position: \d+" if kind == ".index" else r"timestamp: \d+ offset: \d+"
    assert all(re.fullmatch(pattern, line) for line in entries)
    assert len(entries) > 200


@pytest.mark.parametrize("version", VERSIONS)
def test_dump_log_prints_the_aborted_transactions(
    version: str, folder: Folder, dump: Callable[..., dict[str, list[str]]]
) -> None:
    found = by_topic(dump(version, ".txnindex"))
    for topic, life in folder.lives.items():
        spans = [
            f"version: 0 producerId: {span.producer_id} firstOffset: {span.first_offset}"
            f" lastOffset: {span.last_offset} lastStableOffset: {span.last_stable_offset}"
            for span in life.aborted_spans
        ]
        if topic in ("compacted", "purged"):  # an entry may go with the records it is about
            assert set(found[topic]) <= set(spans), topic
        else:
            assert found.get(topic, []) == spans, topic


@pytest.mark.parametrize("version", VERSIONS)
def test_dump_log_prints_the_producers(
    version: str, folder: Folder, dump: Callable[..., dict[str, list[str]]]
) -> None:
    # M-E2
    found = dump(version, ".snapshot")
    for topic, life in folder.lives.items():
        at_end = found.pop(f"{topic}-0/{life.log.end_offset:020}.snapshot", [])
        states = [producer_line(producer_id, state) for producer_id, state in life.producers.items()]
        assert sorted(at_end) == sorted(states), topic
    assert any(found.values()), "snapshots at the start of segments"


def producer_line(producer_id: int, state: ProducerState) -> str:
    first = "OptionalLong.empty" if state.first_offset is None else f"OptionalLong[{state.first_offset}]"
    line = (
        f"producerId: {producer_id} producerEpoch: {state.epoch} coordinatorEpoch: {state.coordinator_epoch}"
        f" currentTxnFirstOffset: {first} lastTimestamp: {state.last_timestamp} "
    )
    if state.batch is None:
        return line
    first_sequence, last_sequence, last_offset = state.batch
    delta = (last_sequence - first_sequence) & MAX_SEQUENCE
    return line + (
        f"firstSequence: {first_sequence} lastSequence: {last_sequence} lastOffset: {last_offset}"
        f" offsetDelta: {delta} timestamp: {state.last_timestamp}"
    )
