"""`barnabas timeline` on files; of a running cluster in tests/cli/cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.broker.timeline import OLDER_FILE, TIMELINE_FILE
from barnabas.cli.cluster.layout import Layout, planned_nodes
from barnabas.cli.framework.exits import Exit
from barnabas.metadata.timeline import Event, Kind
from barnabas.runtime.disk.folder_disk import FolderDisk
from tests.cli.conftest import Call

TIME_MS = 1_700_000_000_000


def event(offset: int, node: int, cause: str = "it stops") -> Event:
    return Event(TIME_MS + offset, Kind.BROKER_FENCED, "broker 9", "", cause, 2, offset, (node,))


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Two nodes, the second of which has missed an event."""
    layout = Layout(str(tmp_path), "id", nodes=planned_nodes(2, 0))
    layout.write(FolderDisk())
    for node, offsets in ((1, (5, 6, 7)), (2, (5, 7))):
        data = tmp_path / f"node-{node}" / "data"
        data.mkdir(parents=True)
        (data / OLDER_FILE).write_bytes(event(offsets[0], node).line())
        (data / TIMELINE_FILE).write_bytes(b"".join(event(offset, node).line() for offset in offsets[1:]))
    return tmp_path


def test_the_timelines_of_all_nodes_are_merged(barnabas: Call, cluster: Path) -> None:
    shown = barnabas("timeline", "--dir", str(cluster), "-o", "jsonl")
    rows = [json.loads(line) for line in shown.out.splitlines()]
    assert [(row["offset"], row["nodes"]) for row in rows] == [(5, [1, 2]), (6, [1]), (7, [1, 2])]
    assert rows[0]["kind"] == "broker-fenced"


def test_a_table(barnabas: Call, cluster: Path) -> None:
    header, first, *_ = barnabas("timeline", "--dir", str(cluster), "-o", "wide").out.splitlines()
    assert header.split() == ["TIME", "EPOCH", "OFFSET", "EVENT", "SUBJECT", "DETAIL", "CAUSE", "SEEN", "BY"]
    assert first.split() == [
        "2023-11-14T22:13:20.005Z",
        *("2", "5", "broker-fenced", "broker", "9", "-", "it", "stops", "1,2"),
    ]


def test_log_directories_of_nodes_elsewhere(barnabas: Call, cluster: Path) -> None:
    folders = [str(cluster / f"node-{node}" / "data") for node in (1, 2)]
    one = barnabas("timeline", "--dir", folders[1], "-o", "jsonl").out.splitlines()
    both = barnabas("timeline", "--dir", folders[0], "--dir", folders[1], "-o", "jsonl").out.splitlines()
    assert (len(one), len(both)) == (2, 3)


def test_since(barnabas: Call, cluster: Path) -> None:
    shown = barnabas("timeline", "--dir", str(cluster), "--since", "2023-11-14T22:13:20.006Z", "-o", "name")
    assert len(shown.out.splitlines()) == 2
    refused = barnabas("timeline", "--dir", str(cluster), "--since", "yesterday")
    assert refused.code == Exit.USAGE
    assert "'yesterday' is not a time" in refused.err


def test_a_folder_without_a_timeline(barnabas: Call, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        refused = barnabas("timeline", "--dir", str(folder))
        assert (refused.code, refused.out) == (Exit.NOT_FOUND, "")
        assert "no timeline and no local cluster in" in refused.err


def test_files_and_a_cluster_exclude_each_other(barnabas: Call, cluster: Path) -> None:
    refused = barnabas("timeline", "--dir", str(cluster), "--bootstrap-server", "localhost:9092")
    assert refused.code == Exit.USAGE
