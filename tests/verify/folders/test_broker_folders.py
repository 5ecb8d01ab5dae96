"""A data folder goes from Apache Kafka to barnabas and back, three times: nothing is lost, nothing repaired.

In each life the node is started twice: to look at what it finds, which must be what the other one left, and then to
go on.  The first start must leave the files as they were.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.verify.answers.broker_answers import differences
from tests.verify.answers.broker_ask import RawClient
from tests.verify.answers.broker_inventory import LATEST, Inventory, inventory
from tests.verify.folders.broker_folder_work import GROUP_NAME, METRICS_NAME, NEWEST_METADATA, Work, committed
from tests.verify.nodes.broker_node import apache_then_ours

# Four lives of the one that comes first, three of the other: three times there and back.
LIVES = 7
AN_HOUR_MS = 3_600_000
METADATA_3_9 = 21
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
SETTINGS = {
    # Snapshots of the metadata in every life, so that both start from the other's.
    "metadata.log.max.record.bytes.between.snapshots": "3000",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "log.retention.ms": "-1",
    # Deleted partitions go while the node runs, not in some later life.
    "log.segment.delete.delay.ms": "100",
}
APACHE, OURS = "Apache Kafka", "barnabas"
# Words of trouble in Apache Kafka's log (trap 27) ...
TROUBLE = re.compile(
    r"rebuil|recover|truncat|corrupt|sanity|unclean|stray|mismatch|^(WARN|ERROR|FATAL)", re.I
)
# ... and the lines with such words that it writes at every start, also on a folder that was always its own.
ALWAYS_WRITTEN = (
    re.compile(r"Skipping recovery of \d+ logs from \S+ since clean shutdown file was found"),
    re.compile(r"\[BrokerLifecycleManager id=1\] The broker (has|is) .*RECOVERY"),
    re.compile(
        r"\[LogLoader partition=__cluster_metadata-0, .*\] Recovering unflushed segment \d+\. \d+ recovered"
    ),
    re.compile(
        r"\[LogLoader partition=__cluster_metadata-0, .*\] (Reloading from producer snapshot|Producer state recovery)"
    ),
    re.compile(r"leaderRecoveryState=RECOVERED"),
    re.compile(r"unclean\.leader\.election\.enable"),
    re.compile(r"electUnclean"),
    re.compile(r"Performing controller activation"),
    re.compile(r"Attempting to close NetworkClient that has already been closed"),
)
PRODUCERS_RELOADED = re.compile(
    r"\[LogLoader partition=(?P<partition>\S+), .*\] (Reloading from producer snapshot and rebuilding producer state|"
    r"Producer state recovery took \d+ms for snapshot load and \d+ms for segment recovery) from offset (?P<offset>\d+)"
)


@dataclass(frozen=True)
class Life:
    """One life: what was found, what was left, and the files around the look."""

    who: str
    found: Inventory | None
    left: Inventory
    files_before: dict[str, bytes]
    files_after: dict[str, bytes]
    log_of_look: str


@dataclass
class Story:
    """All lives of a folder."""

    lives: list[Life] = field(default_factory=list)
    producer_ids: list[int] = field(default_factory=list)
    # What the group's consumer found stored, and had stored before.
    committed: list[tuple[int, int]] = field(default_factory=list)


@pytest.fixture(scope="module", params=[("3.9-IV0", OURS), ("4.1-IV1", APACHE)], ids=["3.9-IV0", "4.1-IV1"])
def story(
    request: pytest.FixtureRequest, oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    release, first = request.param
    home = tmp_path_factory.mktemp("folders") / "node"
    options = ("--cluster-id", CLUSTER_ID, "--release", release)
    with apache_then_ours(oracle, home, SETTINGS, *options) as (apache, ours):
        nodes: dict[str, Any] = {APACHE: apache, OURS: ours}
        logs = {APACHE: apache.server_log, OURS: ours.log}
        apache.stop()
        if first == OURS:
            shutil.rmtree(apache.data)
            ours.format(CLUSTER_ID, "--release-version", release)
        story, work = Story(), Work(int(time.time() * 1000) - AN_HOUR_MS)
        order = [first, OURS if first == APACHE else APACHE] * LIVES
        for number, who in enumerate(order[:LIVES]):
            node, log = nodes[who], logs[who]
            found, before, after, written = None, {}, {}, ""
            if number:
                before = files(apache.data)
                log_start = log.stat().st_size if log.exists() else 0
                node.start()
                found = look(ours.port, work.times)
                node.stop()
                after = files(apache.data)
                written = log.read_bytes()[log_start:].decode()
            node.start()
            if number >= 2 and who == APACHE:
                story.committed.append((committed(ours.port), work.committed[1]))
            raw_client = RawClient(ours.port, 0)
            work.live(raw_client, number, has_coordinators=who == APACHE)
            raw_client.close()
            left = look(ours.port, work.times)
            node.stop()
            story.lives.append(Life(who, found, left, before, after, written))
        story.producer_ids = work.producer_ids
        assert ours.faults() == []
        yield story


def look(port: int, times: tuple[int, ...]) -> Inventory:
    raw_client = RawClient(port, 0)
    found = inventory(raw_client, times, (GROUP_NAME,), (METRICS_NAME,))
    raw_client.close()
    return found


def files(data: Path) -> dict[str, bytes]:
    return {str(path.relative_to(data)): path.read_bytes() for path in data.rglob("*") if path.is_file()}


def handed_over(story: Story) -> Iterator[tuple[Life, Life]]:
    """Each life with the one before it."""
    return zip(story.lives, story.lives[1:], strict=False)


@pytest.mark.parametrize(
    "what",
    [
        "topics",
        "partitions",
        "options",
        "broker options",
        "group options",
        "client metrics",
        "offsets",
        "producers",
        "records",
        "sizes",
        "features",
    ],
)
def test_each_finds_what_the_other_left(story: Story, what: str) -> None:
    for before, after in handed_over(story):
        assert after.found is not None
        assert differences(before.left[what], after.found[what]) == [], f"{after.who} after {before.who}"
        assert before.left[what], "there was something to find"


def test_leader_epochs_go_on(story: Story) -> None:
    """A node that stops takes its partitions from itself and gets them back when it starts: two epochs."""
    for before, after in handed_over(story):
        assert after.found is not None
        epochs = {where: epoch + 2 for where, epoch in before.left["leader epochs"].items()}
        assert after.found["leader epochs"] == epochs, after.who
        for where, ends in before.left["epoch ends"].items():
            assert after.found["epoch ends"][where][: len(ends)] == ends, (after.who, where)


def test_no_producer_id_is_given_out_twice(story: Story) -> None:
    assert len(set(story.producer_ids)) == len(story.producer_ids) == LIVES


def test_what_groups_have_stored_outlives_a_node_without_coordinators(story: Story) -> None:
    assert story.committed
    for found, stored in story.committed:
        assert found == stored


@pytest.mark.trap
def test_apache_kafka_had_nothing_to_repair(story: Story) -> None:
    """Trap 27: Apache Kafka silently rebuilds bad indexes at start: a folder test must also see that its log has no
    rebuild, recover or truncate line."""
    looks = [(life, previous) for previous, life in handed_over(story) if life.who == APACHE]
    assert looks
    for life, previous in looks:
        assert re.search(
            r"Skipping recovery of \d+ logs from .* since clean shutdown file was found", life.log_of_look
        )
        ends = {f"{t}-{p}": found[LATEST][1] for (t, p), found in previous.left["offsets"].items()}
        assert [line for line in messages(life.log_of_look) if is_trouble(line, ends)] == []


def messages(log: str) -> Iterator[str]:
    """The lines of a log without their times; lists of options have none."""
    for line in log.splitlines():
        match = re.match(r"\[[^]]*\] (.*)", line)
        if match:
            yield match[1]


def is_trouble(message: str, ends: dict[str, int]) -> bool:
    if any(pattern.search(message) for pattern in ALWAYS_WRITTEN):
        return False
    reloaded = PRODUCERS_RELOADED.search(message)
    if reloaded:
        # At the end of the log: they came from the snapshot alone, no batch had to be read again.
        return int(reloaded["offset"]) != ends[reloaded["partition"]]
    return TROUBLE.search(message) is not None


@pytest.mark.trap
def test_a_look_leaves_the_files_as_they_were(story: Story) -> None:
    """Trap 27: the files are unchanged after a clean stop.  It holds for both."""
    for life in story.lives[1:]:
        before, after = partition_files(life.files_before), partition_files(life.files_after)
        assert set(after) - set(before) == set(), life.who
        assert set(before) - set(after) == stray_snapshots(before), life.who
        changed = {name for name in after if after[name] != before[name]}
        assert {name.rpartition("/")[2] for name in changed} <= set(REWRITTEN), life.who
        for name in changed:
            REWRITTEN[name.rpartition("/")[2]](life, name, before[name].decode(), after[name].decode())


def partition_files(files: dict[str, bytes]) -> dict[str, bytes]:
    """All but those of the metadata log, of deleted partitions, the lock, which Apache Kafka removes, and two
    files that only we have: the checkpoint of gaps, and the timeline, which every start adds to."""
    return {
        name: data
        for name, data in files.items()
        if not name.startswith("__cluster_metadata-0/")
        and "-delete/" not in name
        and name not in (".lock", "gap-offset-checkpoint", "timeline.jsonl")
    }


def stray_snapshots(files: dict[str, bytes]) -> set[str]:
    """Snapshots of producers that nobody needs any more, which a start removes: all but the newest of a partition
    and those where a segment begins."""
    newest: dict[str, int] = {}
    for name in files:
        if name.endswith(".snapshot"):
            folder, _, file = name.rpartition("/")
            newest[folder] = max(newest.get(folder, -1), int(file[:20]))
    return {
        name
        for name in files
        if name.endswith(".snapshot")
        and f"{name[:-9]}.log" not in files
        and int(name[-29:-9]) != newest[name.rpartition("/")[0]]
    }


def leader_epoch_added(life: Life, name: str, before: str, after: str) -> None:
    """The epoch of this life takes the place of those that wrote nothing."""
    topic, _, partition = name.split("/")[0].rpartition("-")
    where = (topic, int(partition))
    assert life.found is not None
    end = life.found["offsets"][where][LATEST][1]
    kept = [line for line in before.splitlines()[2:] if int(line.split()[1]) < end]
    entries = [*kept, f"{life.found['leader epochs'][where]} {end}"]
    assert after == "\n".join(["0", str(len(entries)), *entries]) + "\n", (life.who, name)


def same_rows(life: Life, name: str, before: str, after: str) -> None:
    """A checkpoint may have its rows in any order."""
    rows, now = before.splitlines(), after.splitlines()
    assert now[:1] == rows[:1], (life.who, name)
    # Partitions that were deleted leave it, sooner or later.
    assert set(now[2:]) <= set(rows[2:]), (life.who, name)
    assert life.found is not None
    hosted = {f"{topic} {partition}" for topic, partition in life.found["partitions"]}
    assert {row.rpartition(" ")[0] for row in now[2:]} >= hosted, (life.who, name)


def clean_mark(life: Life, name: str, before: str, after: str) -> None:
    """It names the broker epoch of the life that ends."""
    assert re.fullmatch(r'\{"version":0,"brokerEpoch":\d+\}', after), (life.who, name)
    assert json.loads(after)["brokerEpoch"] > json.loads(before)["brokerEpoch"], (life.who, name)


# What a start and a clean stop write anew, whatever they find.
REWRITTEN: dict[str, Callable[[Life, str, str, str], None]] = {
    ".kafka_cleanshutdown": clean_mark,
    "leader-epoch-checkpoint": leader_epoch_added,
    "recovery-point-offset-checkpoint": same_rows,
    "replication-offset-checkpoint": same_rows,
}


def test_the_metadata_log_only_grows(story: Story) -> None:
    for life in story.lives[1:]:
        before = {
            name: data for name, data in life.files_before.items() if name.startswith("__cluster_metadata-0/")
        }
        for name, data in before.items():
            if name.endswith(".log"):
                assert life.files_after[name].startswith(data), (life.who, name)
            elif name.endswith((".checkpoint", "partition.metadata")) and name in life.files_after:
                assert life.files_after[name] == data, (life.who, name)
        state, then = (
            json.loads(files["__cluster_metadata-0/quorum-state"])
            for files in (life.files_after, life.files_before)
        )
        assert state["leaderEpoch"] > then["leaderEpoch"], life.who
        assert {**state, "leaderEpoch": 0} == {**then, "leaderEpoch": 0}, life.who


def test_both_write_snapshots_of_the_metadata(story: Story) -> None:
    """Else it would not be known that each starts from the other's."""
    writers = set()
    for life, following in handed_over(story):
        made = set(following.files_before) - set(life.files_before)
        writers |= {
            life.who for name in made if re.fullmatch(r"__cluster_metadata-0/\d+-\d+\.checkpoint", name)
        }
    assert writers == {APACHE, OURS}


def test_the_metadata_was_upgraded_on_the_way(story: Story) -> None:
    first, last = (life.left["features"]["metadata.version"] for life in (story.lives[0], story.lives[-1]))
    assert (first, last) == (
        {OURS: METADATA_3_9, APACHE: NEWEST_METADATA}[story.lives[0].who],
        NEWEST_METADATA,
    )
