"""Following files: M-I3 (collected from files)."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path

import pytest

from barnabas.collect import files
from barnabas.collect.files import FileSource
from barnabas.collect.positions import Position, PositionsFile
from barnabas.collect.sources import Lines

PATIENCE_S = 60


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "POLL_S", 0.005)
    monkeypatch.setattr(files, "DISCOVERY_INTERVAL_S", 0.01)
    monkeypatch.setattr(files, "RENAMED_IDLE_S", 0.05)
    monkeypatch.setattr(files, "SAVE_S", 0.0)


class Reading:
    """A source under test; everything counts as written immediately unless configured otherwise."""

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
    (tmp_path / "a.log").write_text("1\n2\n", "utf-8")
    (tmp_path / "b.log").write_text("3\nno end", "utf-8")
    (tmp_path / "c.txt").write_text("no\n", "utf-8")
    (tmp_path / "d.log").mkdir()
    assert sorted(once([f"{tmp_path}/*.log"])) == [b"1", b"2", b"3", b"no end"]


def test_a_file_is_followed_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("1\n2", "utf-8")

    async def scenario(reading: Reading) -> None:
        assert await reading.until(1) == [b"1"]
        append(path, "2\n3\n")
        assert await reading.until(3) == [b"1", b"22", b"3"]

    following([str(path)], scenario)


def test_rotation_by_renaming_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("1\n", "utf-8")

    async def scenario(reading: Reading) -> None:
        await reading.until(1)
        path.rename(tmp_path / "a.log.1")
        append(tmp_path / "a.log.1", "2\nlast words")
        path.write_text("3\n", "utf-8")
        assert sorted(await reading.until(4)) == [b"1", b"2", b"3", b"last words"]
        assert len(reading.source.followed) == 1

    following([str(path)], scenario)


class Clock:
    """Lets the loop's time run ahead of ours."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead_s = 0.0
        really = asyncio.BaseEventLoop.time
        monkeypatch.setattr(asyncio.BaseEventLoop, "time", lambda loop: really(loop) + self.ahead_s)


def test_a_file_that_was_idle_before_its_rotation_gets_time_to_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service keeps writing to its descriptor until it is told to reopen its log."""
    monkeypatch.setattr(files, "RENAMED_IDLE_S", 600.0)
    clock = Clock(monkeypatch)
    path = tmp_path / "a.log"
    path.write_text("1\n", "utf-8")

    async def scenario(reading: Reading) -> None:
        await reading.until(1)
        clock.ahead_s += 10_000
        path.rename(tmp_path / "a.log.1")
        path.write_text("2\n", "utf-8")
        await reading.until(2)
        for _ in range(3):  # Each growth shows that its writer still has it open.
            clock.ahead_s += 500
            append(tmp_path / "a.log.1", "late\n")
            await reading.until(len(reading.lines) + 1)
        assert reading.lines == [b"1", b"2", b"late", b"late", b"late"]
        clock.ahead_s += 700
        append(path, "3\n")
        await reading.until(6)
        append(path, "4\n")
        await reading.until(7)
        assert [one.path for one in reading.source.followed] == [str(path)]

    following([str(path)], scenario)


def test_only_so_many_files_without_names_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "RENAMED_IDLE_S", 600.0)
    monkeypatch.setattr(files, "MAX_RENAMED", 2)
    path = tmp_path / "a.log"

    async def run() -> None:
        reading = Reading(FileSource([str(path)]))
        for number in range(5):
            path.write_text(f"{number}\nend of {number}", "utf-8")
            while str(number).encode() not in reading.lines:
                await reading.until(len(reading.lines) + 1)
            path.rename(tmp_path / f"a.log.{number}")
        # The last lines of the files that are closed, and of no other.
        path.write_text("5\n", "utf-8")
        await reading.until(5 + 1 + 3)
        assert sorted(line for line in reading.lines if line.startswith(b"end")) == [
            b"end of 0", b"end of 1", b"end of 2",
        ]  # fmt: skip
        assert len(reading.source.followed) == 3
        await reading.end()

    asyncio.run(run())


def test_a_renamed_file_that_still_matches_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("1\n", "utf-8")

    async def scenario(reading: Reading) -> None:
        await reading.until(1)
        path.rename(tmp_path / "a.log.1")
        path.write_text("2\n", "utf-8")
        await reading.until(2)
        append(tmp_path / "a.log.1", "3\n")
        assert await reading.until(3) == [b"1", b"2", b"3"]

    following([f"{tmp_path}/a.log*"], scenario)


def test_a_truncated_file_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("before before\nhalf a li", "utf-8")

    async def scenario(reading: Reading) -> None:
        await reading.until(1)
        os.truncate(path, 0)
        await asyncio.sleep(0)
        append(path, "after\n")
        assert await reading.until(2) == [b"before before", b"after"]

    following([str(path)], scenario)


def test_a_truncated_file_that_has_grown_past_where_we_stood_is_read_from_its_start(tmp_path: Path) -> None:
    path, banner = tmp_path / "a.log", "the same first line each time " * 20
    path.write_text(f"{banner}\nbefore\n", "utf-8")

    async def scenario(reading: Reading) -> None:
        await reading.until(2)
        # There is no check between the two.
        path.write_text(f"{banner}\nafter!\nmore\n", "utf-8")
        assert (await reading.until(5))[2:] == [banner.encode(), b"after!", b"more"]

    following([str(path)], scenario)


def test_a_file_replaced_between_a_look_and_the_end_is_known_as_another_at_the_next_start(
    tmp_path: Path,
) -> None:
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("before\n", "utf-8")

    async def run() -> None:
        reading = Reading(FileSource([str(path)], PositionsFile(str(state))))
        await reading.until(1)
        path.write_text("after and longer\n", "utf-8")
        await reading.end()

    asyncio.run(run())
    assert once([str(path)], state) == [b"after and longer"]


def test_acknowledgements_of_before_a_truncation_mean_nothing_after_it(tmp_path: Path) -> None:
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("a long line before\n", "utf-8")

    async def run() -> None:
        source = FileSource([str(path)], PositionsFile(str(state)))
        reading = source.read()
        before = await anext(reading)
        path.write_text("new\n", "utf-8")
        after = await anext(reading)
        assert after.lines == [b"new"]
        source.written(before.place, before.position)
        await reading.aclose()
        source.close()

    asyncio.run(run())
    assert [one.offset for one in PositionsFile(str(state)).load()] == [0]


def test_a_restart_continues_where_everything_was_written(tmp_path: Path) -> None:
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("1\n2\n", "utf-8")
    assert once([str(path)], state) == [b"1", b"2"]
    append(path, "3\n")
    assert once([str(path)], state) == [b"3"]
    assert once([str(path)], state) == []


def test_unwritten_lines_are_read_again(tmp_path: Path) -> None:
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("1\n2\n", "utf-8")
    assert once([str(path)], state, writes=False) == [b"1", b"2"]
    assert once([str(path)], state) == [b"1", b"2"]


def test_a_file_rotated_between_runs_is_read_to_its_end(tmp_path: Path) -> None:
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("1\n", "utf-8")
    once([str(path)], state)
    append(path, "2\n")
    path.rename(tmp_path / "a.log.old")
    path.write_text("3\n", "utf-8")
    assert sorted(once([str(path)], state)) == [b"2", b"3"]


def test_of_many_files_each_continues_wherever_it_is_now(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Between two runs some are renamed, some removed, and some stay."""
    state = tmp_path / "state.json"
    names = [f"{number}.log" for number in range(9)]
    for name in names:
        (tmp_path / name).write_text(f"old {name}\n", "utf-8")
    assert sorted(once([str(tmp_path / "*.log")], state)) == [f"old {name}".encode() for name in names]
    for number, name in enumerate(names):
        append(tmp_path / name, f"new {name}\n")
        if number % 3 == 0:
            (tmp_path / name).rename(tmp_path / f"{name}.1")
        elif number % 3 == 1:
            (tmp_path / name).unlink()
    found = once([str(tmp_path / "*.log")], state)
    assert sorted(found) == [f"new {name}".encode() for number, name in enumerate(names) if number % 3 != 1]
    warned = [line for line in caplog.text.splitlines() if "was removed or replaced" in line]
    assert len(warned) == 3
    assert once([str(tmp_path / "*.log")], state) == [], "each was read once"


def test_of_many_files_those_that_no_pattern_matches_any_more_are_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = tmp_path / "state.json"
    for name in ("a.log", "b.txt", "c.log", "d.txt", "e.log"):
        (tmp_path / name).write_text(f"{name}\n", "utf-8")
    once([str(tmp_path / "*.log"), str(tmp_path / "*.txt")], state)
    for name in ("a.log", "c.log", "e.log"):
        (tmp_path / name).rename(tmp_path / f"{name}.1")
        append(tmp_path / f"{name}.1", f"new {name}\n")
    assert sorted(once([str(tmp_path / "*.none")], state)) == [b"new a.log", b"new c.log", b"new e.log"]
    assert caplog.text.count("matches none of the patterns any more") == 2


def test_another_file_with_a_known_inode_is_read_from_its_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("this was here\n", "utf-8")
    once([str(path)], state)
    # The same inode with other content, as when inodes are used again.
    path.write_text("and this is another file\n", "utf-8")
    assert once([str(path)], state) == [b"and this is another file"]


def test_a_removed_file_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("1\n", "utf-8")
    once([str(path)], state)
    path.unlink()
    assert once([str(path)], state) == []
    assert "was removed or replaced" in caplog.text
    assert PositionsFile(str(state)).load() == []


def test_from_end_skips_existing_lines(tmp_path: Path) -> None:
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("old\nhalf", "utf-8")
    assert once([str(path)], state, from_end=True) == [b"half"]
    append(path, "\nnew\n")
    assert once([str(path)], state, from_end=True)[-1:] == [b"new"]


def test_from_end_skips_nothing_at_a_later_start(tmp_path: Path) -> None:
    """A file that is new since the last run was rotated meanwhile: all of it is new."""
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("old\n", "utf-8")
    assert once([str(path)], state, from_end=True) == []
    append(path, "last\n")
    path.rename(tmp_path / "a.log.1")
    path.write_text("first\n", "utf-8")
    assert sorted(once([str(path)], state, from_end=True)) == [b"first", b"last"]


def test_from_end_skips_nothing_though_the_first_run_found_no_file(tmp_path: Path) -> None:
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    assert once([str(path)], state, from_end=True) == []
    path.write_text("new\n", "utf-8")
    assert once([str(path)], state, from_end=True) == [b"new"]


def refusing(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """Files of this name cannot be opened while it is in the list."""
    refused, really = [name], vars(files)["Follower"]

    def follower(path: str, *rest: object) -> object:
        if path.endswith(tuple(refused)):
            raise OSError(24, "Too many open files", path)
        return really(path, *rest)

    monkeypatch.setattr(files, "Follower", follower)
    return refused


@pytest.mark.parametrize("is_renamed", [False, True])
def test_a_file_that_could_not_be_opened_continues_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_renamed: bool
) -> None:
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("1\n", "utf-8")
    once([str(path)], state)
    append(path, "2\n")
    if is_renamed:
        path = path.rename(tmp_path / "b.log")
    refused = refusing(monkeypatch, path.name)
    # A run that cannot open it at all keeps its position.
    assert once([f"{tmp_path}/a.log"], state) == []

    async def run() -> None:
        reading = Reading(FileSource([f"{tmp_path}/a.log"], PositionsFile(str(state))))
        wanted = asyncio.ensure_future(reading.until(1))
        await asyncio.sleep(0.05)
        refused.clear()
        refused.append("another")
        assert await wanted == [b"2"]
        await reading.end()

    asyncio.run(run())
    assert [one.offset for one in PositionsFile(str(state)).load()] == [4]


@pytest.mark.parametrize("is_renamed", [False, True])
def test_a_file_that_cannot_be_opened_does_not_keep_the_others_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_renamed: bool
) -> None:
    """Every other of nine: at their names, or where a rotation moved them."""
    state = tmp_path / "state.json"
    names = [f"{number}.log" for number in range(9)]
    for name in names:
        (tmp_path / name).write_text("old\n", "utf-8")
    once([f"{tmp_path}/*.log"], state)
    for name in names:
        append(tmp_path / name, f"new {name}\n")
    for name in names[1::2] if not is_renamed else names:
        (tmp_path / name).rename(tmp_path / f"{name}.1")
    suffix = ".1" if is_renamed else ""
    refused = refusing(monkeypatch, f"{names[0]}{suffix}")
    refused += [f"{name}{suffix}" for name in names[2::2]]
    assert sorted(once([f"{tmp_path}/*.log"], state)) == [f"new {name}".encode() for name in names[1::2]]
    refused[:] = ["another"]
    assert sorted(once([f"{tmp_path}/*.log"], state)) == [f"new {name}".encode() for name in names[::2]]


def test_names_without_a_file_are_passed_over(tmp_path: Path) -> None:
    for number in range(9):
        if number % 2:
            (tmp_path / f"{number}.log").write_text(f"{number}\n", "utf-8")
        else:
            (tmp_path / f"{number}.log").symlink_to(tmp_path / "nowhere")
    assert sorted(once([f"{tmp_path}/*.log"])) == [b"1", b"3", b"5", b"7"]


def test_a_file_that_fails_once_while_it_is_read_is_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.log"
    path.write_text("1\n", "utf-8")

    async def scenario(reading: Reading) -> None:
        await reading.until(1)
        really, failures = os.pread, [5]

        def pread(descriptor: int, size: int, offset: int) -> bytes:
            if failures:
                raise OSError(failures.pop(), "Input/output error")
            return really(descriptor, size, offset)

        monkeypatch.setattr(os, "pread", pread)
        append(path, "2\n")
        assert await reading.until(2) == [b"1", b"2"]

    following([str(path)], scenario)
    assert "a.log can no longer be read: Input/output error" in caplog.text


def test_a_pattern_without_a_file_is_reported_and_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.log").write_text("1\n", "utf-8")
    (tmp_path / "folder").mkdir()

    async def scenario(reading: Reading) -> None:
        await reading.until(1)
        assert reading.source.unmatched == [f"{tmp_path}/folder", f"{tmp_path}/b.log"]
        (tmp_path / "b.log").write_text("2\n", "utf-8")
        assert await reading.until(2) == [b"1", b"2"]
        assert reading.source.unmatched == [f"{tmp_path}/folder"]

    following([f"{tmp_path}/*.log", f"{tmp_path}/folder", f"{tmp_path}/b.log"], scenario)
    assert f"no file matches {tmp_path}/b.log yet" in caplog.text
    assert f"no file matches {tmp_path}/*.log" not in caplog.text


def test_an_unreadable_file_is_reported_and_the_others_are_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.log").write_text("1\n", "utf-8")
    (tmp_path / "b.log").write_text("2\n", "utf-8")
    really = vars(files)["Follower"]

    def follower(path: str, *rest: object) -> object:
        if path.endswith("a.log"):
            raise PermissionError(13, "Permission denied", path)
        return really(path, *rest)

    monkeypatch.setattr(files, "Follower", follower)
    assert once([f"{tmp_path}/*.log"]) == [b"2"]
    assert "a.log cannot be read: Permission denied" in caplog.text


@pytest.mark.parametrize("is_relative", [False, True])
def test_a_file_that_no_pattern_matches_any_more_is_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, is_relative: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path() if is_relative else tmp_path
    path, other, state = folder / "a.log", folder / "b.log", tmp_path / "state.json"
    path.write_text("1\n", "utf-8")
    other.write_text("2\n", "utf-8")
    once([str(folder / "*.log")], state)
    append(path, "unwanted\n")
    append(other, "3\n")
    assert once([str(other)], state) == [b"3"]
    assert f"{path}, read up to byte 2 before, matches none of the patterns any more" in caplog.text
    assert [one.path for one in PositionsFile(str(state)).load()] == [str(other)]


def test_a_rotated_file_is_read_on_at_the_start_after_next(tmp_path: Path) -> None:
    """Its new name matches no pattern, and yet it is no file of other patterns."""
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("1\n", "utf-8")
    once([str(path)], state)
    append(path, "2\n")
    path.rename(tmp_path / "a.log.1")
    assert once([str(path)], state, writes=False) == [b"2"]
    assert once([str(path)], state) == [b"2"]


class FullDisk(PositionsFile):
    """Accepts positions only while there is space."""

    has_room = False
    tries = 0

    def save(self, positions: Iterable[Position]) -> None:
        self.tries += 1
        if not self.has_room:
            raise OSError(errno.ENOSPC, "No space left on device", self.path)
        super().save(positions)


def test_a_full_disk_is_reported_once_and_positions_are_saved_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, positions = tmp_path / "a.log", FullDisk(str(tmp_path / "state.json"))
    path.write_text("0\n", "utf-8")

    async def run() -> None:
        reading = Reading(FileSource([str(path)], positions))
        for number in range(1, 5):
            await reading.until(number)
            append(path, f"{number}\n")
        assert positions.tries > 1
        positions.has_room = True
        await reading.until(5)
        await reading.end()

    asyncio.run(run())
    assert caplog.text.count("positions cannot be saved, trying again: ") == 1
    assert [one.offset for one in positions.load()] == [10]


def test_positions_are_saved_once_in_an_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SAVE_S", 600.0)
    clock = Clock(monkeypatch)
    path, positions = tmp_path / "a.log", FullDisk(str(tmp_path / "state.json"))
    positions.has_room = True
    path.write_text("0\n", "utf-8")

    async def run() -> None:
        reading = Reading(FileSource([str(path)], positions))
        for number in range(1, 4):
            await reading.until(number)
            append(path, f"{number}\n")
        assert positions.tries == 1, "at the start"
        clock.ahead_s += 601
        for number in range(4, 8):
            await reading.until(number)
            append(path, f"{number}\n")
        assert positions.tries == 2
        await reading.end()

    asyncio.run(run())
    assert positions.tries == 3, "and at the end"


def test_positions_that_cannot_be_saved_at_the_end_are_an_error(tmp_path: Path) -> None:
    path, positions = tmp_path / "a.log", FullDisk(str(tmp_path / "state.json"))
    path.write_text("0\n", "utf-8")

    async def run() -> None:
        reading = Reading(FileSource([str(path)], positions))
        await reading.until(1)
        (follower,) = reading.source.followed
        with pytest.raises(OSError, match=r"positions are not saved \(No space left on device\)") as raised:
            await reading.end()
        assert raised.value.filename == positions.path
        with pytest.raises(OSError, match="Bad file descriptor"):
            follower.read()

    asyncio.run(run())
