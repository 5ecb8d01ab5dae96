"""One followed file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.collect import follower as module
from barnabas.collect.follower import Follower, TruncatedError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.log"
    path.write_bytes(b"one\ntwo\nthr")
    return path


@pytest.fixture
def follower(path: Path) -> Iterator[Follower]:
    follower = Follower(str(path), (1, 2), 7, 1_000)
    yield follower
    follower.close()
    follower.close()


def test_lines_are_returned_when_they_are_whole(path: Path, follower: Follower) -> None:
    assert follower.read() == [b"one", b"two"]
    assert (follower.offset, follower.read()) == (8, None)
    with path.open("ab") as file:
        file.write(b"ee\n")
    assert follower.read() == [b"three"]
    assert follower.offset == 14


def test_a_truncated_file_starts_again_as_another_one(path: Path, follower: Follower) -> None:
    follower.read()
    follower.written_offset = 8
    before = follower.position()
    path.write_bytes(b"new 1\nnew 2\nnew 3\n")
    with pytest.raises(TruncatedError):
        follower.read()
    follower.start_again(9)
    after = follower.position()
    assert (follower.place, follower.written_offset, follower.offset) == (9, 0, 0)
    assert (after.head_length, after.head != before.head) == (18, True), "it is known by its new content"
    assert follower.is_same_as(after)
    assert not follower.is_same_as(before)
    assert follower.read() == [b"new 1", b"new 2", b"new 3"]


def test_a_saved_position_is_continued_unless_the_file_is_shorter(
    follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    follower.start_at(11)
    assert (follower.offset, follower.written_offset, caplog.text) == (11, 11, "")
    follower.start_at(12)
    assert follower.offset == 0
    follower.start_at(4)
    assert follower.read() == [b"two"]
    assert "a.log is shorter than its saved position: reading it from its start" in caplog.text


@pytest.mark.parametrize(("content", "offset"), [(b"", 0), (b"half", 0), (b"one\n", 4), (b"one\nhalf", 4)])
def test_the_end_is_after_the_last_whole_line(path: Path, content: bytes, offset: int) -> None:
    path.write_bytes(content)
    follower = Follower(str(path), (1, 2), 7, 1_000)
    follower.start_at_end()
    assert follower.offset == offset
    follower.close()


def test_a_change_in_the_last_bytes_is_noticed_however_much_was_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TAIL_BYTES", 4)
    path.write_bytes(b"0123456789\n")
    follower = Follower(str(path), (1, 2), 7, 1_000)
    assert follower.read() == [b"0123456789"]
    path.write_bytes(b"xxxxxxx789\nmore\n")
    assert follower.read() == [b"more"], "only the last bytes are compared"
    path.write_bytes(b"xxxxxxx789\nm_re\nagain\n")
    with pytest.raises(TruncatedError):
        follower.read()
    follower.close()
