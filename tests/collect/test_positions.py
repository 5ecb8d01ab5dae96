"""Saved positions."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from barnabas.collect.positions import Position, PositionsFile

ONE = Position("/logs/a.log", 1, 2, 300, 4, "abcd")


def test_saved_positions_are_loaded(tmp_path: Path) -> None:
    file = PositionsFile(str(tmp_path / "deep" / "state.json"))
    assert file.load() == []
    file.save([ONE])
    assert file.load() == [ONE]
    file.save([])
    assert file.load() == []
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["state.json"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"format": 2, "files": []}',
        '{"format": 1, "files": [{}]}',
        '{"format": 1, "files": 3}',
        json.dumps({"format": 1, "files": [{**dict.fromkeys(ONE.__slots__, "x")}]}),
        json.dumps(
            {
                "format": 1,
                "files": [{"path": "a", "device": 1, "inode": 1, "offset": -1, "head_length": 0, "head": ""}],
            }
        ),
    ],
)
def test_another_file_is_refused_and_stays_as_it_is(tmp_path: Path, content: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(content, "utf-8")
    with pytest.raises(ValueError, match=r"does not hold a collector's positions.*name another file"):
        PositionsFile(str(path)).load()
    assert path.read_text("utf-8") == content


def test_a_file_that_no_collector_would_write_is_not_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = PositionsFile(str(tmp_path / "state.json"))
    file.save([])
    size = os.path.getsize(file.path)
    monkeypatch.setattr("barnabas.collect.positions.MAX_STATE_BYTES", size)
    assert file.load() == []
    monkeypatch.setattr("barnabas.collect.positions.MAX_STATE_BYTES", size - 1)
    with pytest.raises(ValueError, match=r"does not hold a collector's positions \(too large\)"):
        file.load()


def test_only_one_has_it_at_a_time(tmp_path: Path) -> None:
    state = str(tmp_path / "deep" / "state.json")
    with PositionsFile(state).claimed(), pytest.raises(ValueError, match="another collector uses"):
        PositionsFile(state).claimed().__enter__()
    with PositionsFile(state).claimed():
        pass


def test_a_power_loss_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new content is on disk before it replaces the old one, and the name after that."""
    steps: list[int | str] = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        steps.append(os.fstat(descriptor).st_ino)
        real_fsync(descriptor)

    def replace(source: str, target: str) -> None:
        steps.append("replace")
        real_replace(source, target)

    monkeypatch.setattr("barnabas.collect.positions.os.fsync", fsync)
    monkeypatch.setattr("barnabas.collect.positions.os.replace", replace)
    path = tmp_path / "deep" / "state.json"
    PositionsFile(str(path)).save([ONE])
    assert steps == [path.stat().st_ino, "replace", path.parent.stat().st_ino]
