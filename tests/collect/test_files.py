"""Following files: M-I3 (collected from files)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from barnabas.collect import files
from barnabas.collect.files import FileSource
from barnabas.collect.positions import PositionsFile
from barnabas.collect.sources import Lines

PATIENCE_S = 60


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "POLL_S", 0.005)
    monkeypatch.setattr(files, "LOOK_S", 0.01)
    monkeypatch.setattr(files, "LAST_WORDS_S", 0.05)
    monkeypatch.setattr(files, "SAVE_S", 0.0)


class Reading:
    """A source that is read; everything counts as written at once unless told otherwise."""

    def __init__(self, source: FileSource, *, writes: bool = True) -> None:
        self.source = source
        self.lines: list[bytes] = []
        self._writes = writes
        self._iterator: AsyncGenerator[Lines, None] = source.read()

    async def until(self, count: int) -> list[bytes]:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.lines) < count:
                found = await anext(self._iterator)
                self.lines += found.lines
                if self._writes:
                    self.source.written(found.place, found.position)
        return self.lines

    async def rest(self) -> list[bytes]:
        async for found in self._iterator:
            self.lines += found.lines
            if self._writes:
                self.source.written(found.place, found.position)
        return self.lines

    async def end(self) -> None:
        self.source.stop()
        await self._iterator.aclose()
        self.source.close()


def once(
    patterns: list[str], state: Path | None = None, *, writes: bool = True, from_end: bool = False
) -> list[bytes]:
    async def run() -> list[bytes]:
        positions = PositionsFile(str(state)) if state is not None else None
        reading = Reading(FileSource(patterns, positions, until_end=True, from_end=from_end), writes=writes)
        lines = await reading.rest()
        await reading.end()
        return lines

    return asyncio.run(run())


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def following(patterns: list[str], scenario: Callable[[Reading], object]) -> None:
    async def run() -> None:
        reading = Reading(FileSource(patterns))
        await scenario(reading)  # type: ignore[misc]
        await reading.end()

    asyncio.run(run())


def test_all_matching_files_are_read_to_their_end(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("1\n2\n")
    (tmp_path / "b.log").write_text("3\nno end")
    (tmp_path / "c.txt").write_text("no\n")
    (tmp_path / "d.log").mkdir()
    assert sorted(once([f"{tmp_path}/*.log"])) == [b"1", b"2", b"3", b"no end"]


def test_a_file_is_followed_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("1\n2")

    async def scenario(reading: Reading) -> None:
        assert await reading.until(1) == [b"1"]
        append(path, "2\n3\n")
        assert await reading.until(3) == [b"1", b"22", b"3"]

    following([str(path)], scenario)


def test_rotation_by_renaming_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("1\n")

    async def scenario(reading: Reading) -> None:
        await reading.until(1)
        path.rename(tmp_path / "a.log.1")
        append(tmp_path / "a.log.1", "2\nlast words")
        path.write_text("3\n")
        assert sorted(await reading.until(4)) == [b"1", b"2", b"3", b"last words"]
        assert len(reading.source.followed) == 1

    following([str(path)], scenario)


def test_a_renamed_file_that_still_matches_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("1\n")

    async def scenario(reading: Reading) -> None:
        await reading.until(1)
        path.rename(tmp_path / "a.log.1")
        path.write_text("2\n")
        await reading.until(2)
        append(tmp_path / "a.log.1", "3\n")
        assert await reading.until(3) == [b"1", b"2", b"3"]

    following([f"{tmp_path}/a.log*"], scenario)


def test_a_truncated_file_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("before before\nhalf a li")

    async def scenario(reading: Reading) -> None:
        await reading.until(1)
        os.truncate(path, 0)
        await asyncio.sleep(0)
        append(path, "after\n")
        assert await reading.until(2) == [b"before before", b"after"]

    following([str(path)], scenario)


def test_acknowledgements_of_before_a_truncation_mean_nothing_after_it(tmp_path: Path) -> None:
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("a long line before\n")

    async def run() -> None:
        source = FileSource([str(path)], PositionsFile(str(state)))
        reading = source.read()
        before = await anext(reading)
        path.write_text("new\n")
        after = await anext(reading)
        assert after.lines == [b"new"]
        source.written(before.place, before.position)
        await reading.aclose()
        source.close()

    asyncio.run(run())
    assert [one.offset for one in PositionsFile(str(state)).load()] == [0]


def test_a_restart_goes_on_where_everything_was_written(tmp_path: Path) -> None:
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("1\n2\n")
    assert once([str(path)], state) == [b"1", b"2"]
    append(path, "3\n")
    assert once([str(path)], state) == [b"3"]
    assert once([str(path)], state) == []


def test_what_was_read_and_not_written_is_read_again(tmp_path: Path) -> None:
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("1\n2\n")
    assert once([str(path)], state, writes=False) == [b"1", b"2"]
    assert once([str(path)], state) == [b"1", b"2"]


def test_a_file_that_was_rotated_while_nobody_collected_is_read_to_its_end(tmp_path: Path) -> None:
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("1\n")
    once([str(path)], state)
    append(path, "2\n")
    path.rename(tmp_path / "a.log.old")
    path.write_text("3\n")
    assert sorted(once([str(path)], state)) == [b"2", b"3"]


def test_another_file_with_a_known_inode_is_read_from_its_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("this was here\n")
    once([str(path)], state)
    # The same inode with other content, as when inodes are used again.
    path.write_text("and this is another file\n")
    assert once([str(path)], state) == [b"and this is another file"]


def test_a_file_that_is_gone_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("1\n")
    once([str(path)], state)
    path.unlink()
    assert once([str(path)], state) == []
    assert "is gone or another file now" in caplog.text
    assert PositionsFile(str(state)).load() == []


def test_from_end_leaves_out_what_is_there(tmp_path: Path) -> None:
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("old\nhalf")
    assert once([str(path)], state, from_end=True) == [b"half"]
    append(path, "\nnew\n")
    assert once([str(path)], state, from_end=True)[-1:] == [b"new"]


def test_a_file_that_cannot_be_read_is_told_and_the_others_are_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.log").write_text("1\n")
    (tmp_path / "b.log").write_text("2\n")
    really = files.Follower

    def follower(path: str, *rest: object) -> object:
        if path.endswith("a.log"):
            raise PermissionError(13, "Permission denied", path)
        return really(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(files, "Follower", follower)
    assert once([f"{tmp_path}/*.log"]) == [b"2"]
    assert "a.log cannot be read: Permission denied" in caplog.text
