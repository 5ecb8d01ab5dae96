"""A broker of Apache Kafka takes over a data folder that our storage lived in, serves it and goes on with it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.build import build
from barnabas.batch.control import batch_marker
from barnabas.batch.records import Record
from barnabas.batch.view import batches
from barnabas.runtime.clock import SystemClock
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.log.log_reader import MAX_TIMESTAMP
from barnabas.storage.log.names import TopicPartition
from tests.verify.killed.log_life import Life, Written
from tests.verify.killed.log_life_writer import MIXED, OPTIONS, LifeWriter, open_manager
from tests.verify.nodes.apache_broker import Seen, View, apache_broker

VERSION = "4.1.0"
# The broker's own epoch follows after these, as each stop and start adds one.
OUR_EPOCHS = (0, 1)
APACHE_EPOCH = 2
# Topics that Apache Kafka writes to as well.
CONTINUED = ("continued", "hanging")
# What a broker writes anew in every life, whatever it finds: at the root its checkpoints and the clean mark; in
# a partition the epoch of its own leadership.
ALWAYS_REWRITTEN = {
    ".kafka_cleanshutdown",
    "cleaner-offset-checkpoint",
    "gap-offset-checkpoint",
    "leader-epoch-checkpoint",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
}
# Words of trouble in the broker's log (trap 27) ...
TROUBLE = re.compile(r"rebuil|recover|truncat|corrupt|invalid|sanity|unclean|stray|mismatch|fail|delet", re.I)
# ... and the lines with such words that it writes for every log, however well that was closed.
USUAL = (
    re.compile(
        r"\[LogLoader partition=(?P<partition>\S+), .*\] Reloading from producer snapshot and rebuilding producer"
        r" state from offset (?P<offset>\d+) .*"
    ),
    re.compile(
        r"\[LogLoader partition=(?P<partition>\S+), .*\] Producer state recovery took \d+ms for snapshot load and"
        r" \d+ms for segment recovery from offset (?P<offset>\d+) .*"
    ),
)
# Of the controller, about its own records.
METADATA_LINE = "[QuorumController id=1] Replayed "
# Snapshots at or before the log start are of no use to a start, which removes them, and not to be written sooner.
USELESS_SNAPSHOT = re.compile(r"Deleted producer state snapshot .*/(?P<name>[\w-]+/\d+\.snapshot) .*")


@dataclass
class HandedOver:
    """The whole story: what we wrote, what Apache Kafka made of it."""

    lives: dict[str, Life]
    views: dict[str, View]
    # Of our own log, asked before it was closed: time -> (time, offset), and the newest record.
    our_times: dict[str, dict[int, tuple[int, int]]]
    our_newest: dict[str, tuple[int, int]]
    ours: dict[str, bytes]
    after: dict[str, bytes]
    server_log: str
    later_views: dict[str, View]
    answers: list[tuple[int, int]]
    our_answers: list[tuple[int, int]]
    data: Path


@pytest.fixture(scope="module")
def story(oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[HandedOver]:
    home = tmp_path_factory.mktemp("handed-over")
    settings = {"log.cleaner.backoff.ms": "500"}  # so that its cleaner looks at our logs while we look at it
    with apache_broker(oracle, VERSION, home / "cluster", settings) as broker:
        broker.create({topic: configs_of(options) for topic, options in OPTIONS.items()})
        broker.stop()
        writer = LifeWriter(broker.data, OUR_EPOCHS)
        lives = writer.write()
        times = {topic: times_of(life) for topic, life in lives.items()}
        our_times = {topic: answers_of(lives[topic].log, asked) for topic, asked in times.items()}
        our_newest = {topic: found(life.log, MAX_TIMESTAMP) for topic, life in lives.items()}
        writer.close()
        ours = files(broker.data)
        shutil.copytree(broker.data / "continued-0", home / "ours" / "continued-0")
        log_before = broker.server_log.stat().st_size
        broker.start()
        views = broker.look(times)
        answers = [broker.produce("continued", batch) for batch in further_batches()]
        broker.abort("hanging", 4003, 5, 0)
        later_views = broker.look(dict.fromkeys(CONTINUED, ()))
        broker.stop()
        server_log = broker.server_log.read_bytes()[log_before:].decode()
        yield HandedOver(
            lives,
            views,
            our_times,
            our_newest,
            ours,
            files(broker.data),
            server_log,
            later_views,
            answers,
            our_answers_in(home / "ours"),
            broker.data,
        )


def configs_of(options: LogOptions) -> dict[str, str]:
    """What the broker needs to know of a topic.  It must not clean or expire what it is compared on."""
    configs = {"retention.ms": "-1", "message.timestamp.type": options.message_timestamp_type}
    if options.cleanup_compact:
        configs |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"}
    return configs


def times_of(life: Life) -> list[int]:
    """Times to look for: of the first record, between records, of the last, after the last."""
    stamps = [record.timestamp for record in life.uncommitted()]
    if not stamps:
        return [life.start_ms]
    chosen = {stamps[0] - 1, stamps[0], max(stamps), max(stamps) + 60_000}
    chosen.update(stamp + extra for stamp in stamps[:: max(1, len(stamps) // 8)] for extra in (0, 1))
    return sorted(chosen)


def answers_of(log: Log, times: list[int]) -> dict[int, tuple[int, int]]:
    return {time: found(log, time) for time in times}


def found(log: Log, time: int) -> tuple[int, int]:
    answer = log.offset_for_time(time)
    return (-1, -1) if answer is None else (answer.timestamp, answer.offset)


def files(data: Path) -> dict[str, bytes]:
    """All files of the folder but those of the controller's own log."""
    return {
        str(path.relative_to(data)): path.read_bytes()
        for path in data.rglob("*")
        if path.is_file() and "__cluster_metadata" not in str(path)
    }


def further_batches() -> Iterator[bytearray]:
    """What the producer of `continued` may send next: again, out of order, with an old epoch, in order."""
    now_ms = SystemClock().wall_ms()
    for sequence, epoch in (
        (18, 2),
        (15, 2),
        (24, 2),
        (21, 1),
        (21, 2),
        (24, 2),
        (21, 2),
        (0, 3),
        (0, 3),
        (4, 3),
    ):
        records = [Record(offset, now_ms + offset, *row) for offset, row in enumerate(MIXED[:3])]
        yield build(records, producer_id=4001, producer_epoch=epoch, base_sequence=sequence)


def our_answers_in(folder: Path) -> list[tuple[int, int]]:
    """The same batches to our own log, opened on the same files."""
    (folder / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}', "utf-8")
    manager = open_manager(folder, OPTIONS.__getitem__)
    log = manager.logs[TopicPartition("continued", 0)]
    answers = []
    for batch in further_batches():
        try:
            answers.append((0, log.append_as_leader(batch, APACHE_EPOCH).first_offset))
        except KafkaError as error:
            answers.append((int(error.code), -1))
    manager.close()
    return answers


def as_seen(records: list[Written]) -> list[Seen]:
    return [Seen(*record[:6]) for record in records]


@pytest.mark.parametrize("topic", OPTIONS)
def test_consumers_get_every_record(topic: str, story: HandedOver) -> None:
    # M-E1
    life, view = story.lives[topic], story.views[topic]
    assert view.uncommitted == as_seen(life.uncommitted())
    assert (view.start, view.end) == (life.log.log_start_offset, life.log.end_offset)
    stamped = "LogAppendTime" if topic == "logappend" else "CreateTime"
    assert view.timestamp_types <= {stamped}


@pytest.mark.parametrize("topic", OPTIONS)
def test_read_committed_consumers_get_what_was_committed(topic: str, story: HandedOver) -> None:
    # M-E2
    life, view = story.lives[topic], story.views[topic]
    assert view.committed == as_seen(life.committed())
    assert view.stable_end == life.stable_end == life.log.last_stable_offset


@pytest.mark.parametrize("topic", OPTIONS)
def test_offsets_are_found_by_time(topic: str, story: HandedOver) -> None:
    """Apache Kafka's answers from our time index are the ones that we give."""
    view, ours = story.views[topic], story.our_times[topic]
    if topic == "purged":
        # Its first segment has lost all records.  Apache Kafka then goes by the file's age, and looks no further.
        assert all(view.times[time] in (ours[time], (-1, -1)) for time in ours)
    else:
        assert view.times == ours
    assert view.newest == story.our_newest[topic]


@pytest.mark.parametrize("topic", OPTIONS)
def test_producers_are_known(topic: str, story: HandedOver) -> None:
    # M-E2
    states = {
        producer_id: (
            state.epoch,
            -1 if state.batch is None else state.batch[1],
            state.last_timestamp,
            state.coordinator_epoch,
            -1 if state.first_offset is None else state.first_offset,
        )
        for producer_id, state in story.lives[topic].producers.items()
    }
    assert story.views[topic].producers == states


@pytest.mark.trap
def test_the_broker_had_nothing_to_repair(story: HandedOver) -> None:
    """Trap 27: Apache Kafka silently rebuilds bad indexes at start: a folder test must also see that its log has
    no rebuild, recover or truncate line."""
    assert re.search(
        r"Skipping recovery of \d+ logs from .* since clean shutdown file was found", story.server_log
    )
    ends = {
        f"{topic}-0": life.log.end_offset for topic, life in story.lives.items() if topic not in CONTINUED
    }
    names = re.compile(r"(?<![\w-])(" + "|".join(map(re.escape, ends)) + r")(?![\w-])")
    useless = useless_snapshots(story)
    for line in story.server_log.splitlines():
        message = re.sub(r"^\[[^]]*\] [A-Z]+ ", "", line)
        if not names.search(line) or message.startswith(METADATA_LINE):
            continue
        assert not re.match(r"\[[^]]*\] (WARN|ERROR|FATAL)", line), line
        if TROUBLE.search(message):
            removed = USELESS_SNAPSHOT.fullmatch(message)
            if removed is not None:
                assert removed["name"] in useless, line
                continue
            usual = next((match for pattern in USUAL if (match := pattern.fullmatch(message))), None)
            assert usual is not None, line
            # Its producers come from our snapshot alone: no batch had to be read again.
            assert int(usual["offset"]) == ends[usual["partition"]], line


def useless_snapshots(story: HandedOver) -> set[str]:
    return {
        name
        for name in story.ours
        if name.endswith(".snapshot")
        and int(name[-29:-9]) <= story.lives[name.rpartition("-0/")[0]].log.log_start_offset
    }


@pytest.mark.trap
def test_our_files_are_left_as_they_were(story: HandedOver) -> None:
    """Trap 27: the files are unchanged after Apache Kafka's clean stop."""
    before = {name: data for name, data in story.ours.items() if not is_continued(name)}
    after = {name: data for name, data in story.after.items() if not is_continued(name)}
    assert after.keys() - before.keys() == set()
    assert before.keys() - after.keys() - useless_snapshots(story) == {".lock"}
    changed = {name for name in after if before[name] != after[name]}
    assert {name.rpartition("/")[2] for name in changed} <= ALWAYS_REWRITTEN
    for topic, life in story.lives.items():
        if topic not in CONTINUED:
            name = f"{topic}-0/leader-epoch-checkpoint"
            assert after[name].decode() == with_epoch(before[name].decode(), life.log.end_offset), topic


def is_continued(name: str) -> bool:
    return name.split("/")[0].removesuffix("-0") in CONTINUED


def with_epoch(text: str, end_offset: int) -> str:
    """The checkpoint with the broker's own epoch, which takes the place of one that wrote nothing."""
    entries = [line for line in text.splitlines()[2:] if int(line.split()[1]) < end_offset]
    entries.append(f"{APACHE_EPOCH} {end_offset}")
    return "\n".join(("0", str(len(entries)), *entries)) + "\n"


@pytest.mark.trap
def test_the_broker_goes_on_with_our_producers(story: HandedOver) -> None:
    """Trap 14: producer sequence state survives restart, leader change and partition moves."""
    assert story.answers == story.our_answers
    codes = [ErrorCode(code) for code, _ in story.answers]
    out_of_order = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert codes[:4] == [ErrorCode.NONE, out_of_order, out_of_order, ErrorCode.INVALID_PRODUCER_EPOCH]
    assert story.answers[0] == (0, 18), "the last batch again: its first offset, nothing written"
    assert story.answers[4] == (0, 21), "the next batch: at the end"
    assert story.later_views["continued"].end == 30


def test_the_broker_ends_a_transaction_that_was_open_here(story: HandedOver) -> None:
    life, view = story.lives["hanging"], story.later_views["hanging"]
    assert view.stable_end == view.end == life.log.end_offset + 1
    in_open_transaction = range(2, 5)
    kept = [
        r for r in life.uncommitted() if r.offset not in life.aborted and r.offset not in in_open_transaction
    ]
    assert view.committed == as_seen(kept)


@pytest.mark.parametrize("topic", CONTINUED)
def test_what_the_broker_added_follows_our_bytes(topic: str, story: HandedOver) -> None:
    ours = {name: data for name, data in story.ours.items() if name.startswith(f"{topic}-0/")}
    last_log = max(name for name in ours if name.endswith(".log"))
    added = story.after[last_log].removeprefix(ours[last_log])
    assert 0 < len(added) < len(story.after[last_log])
    assert {batch.leader_epoch for batch in batches(added)} == {APACHE_EPOCH}
    for name in ours:
        if name.endswith(".log") and name != last_log:
            assert story.after[name] == ours[name]


def test_we_read_what_the_broker_left(story: HandedOver) -> None:
    manager = open_manager(story.data, lambda topic: OPTIONS.get(topic, LogOptions()))
    continued = manager.logs[TopicPartition("continued", 0)]
    hanging = manager.logs[TopicPartition("hanging", 0)]
    assert continued.end_offset == 30
    assert continued.producers.entries[4001].epoch == 3
    assert [entry.epoch for entry in hanging.epochs.entries] == [0, APACHE_EPOCH]
    assert hanging.last_stable_offset == hanging.end_offset
    got = hanging.read(hanging.end_offset - 1, 1 << 20, upper_bound=hanging.end_offset).slice
    assert got is not None
    (last,) = batches(got.read())
    marker = batch_marker(last)
    assert marker is not None
    assert not marker.commit
    assert [span.producer_id for span in hanging.aborted_transactions(0, hanging.end_offset)] == [4002, 4003]
    manager.close()
