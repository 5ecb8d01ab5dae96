"""The comparison of replicas finds what it is to find: without it the other checks here would prove little."""

from __future__ import annotations

from pathlib import Path

from barnabas.batch.build import build
from barnabas.batch.records import Record
from tests.verify.replication.replica_files import differences

EPOCHS = {0: 0, 1: 2}
PLACE = ("topic", 0)


def _replica(folder: Path, offsets: range, epochs: dict[int, int], value: bytes = b"value") -> Path:
    """A data folder with one log, two records a segment."""
    home = folder / "topic-0"
    home.mkdir(parents=True)
    for base in offsets[::2]:
        records = [Record(offset, 1, None, value) for offset in (base, base + 1)]
        (home / f"{base:020}.log").write_bytes(build(records, leader_epoch=min(base // 2, 1)))
    lines = ["0", str(len(epochs)), *(f"{epoch} {start}" for epoch, start in epochs.items()), ""]
    (home / "leader-epoch-checkpoint").write_text("\n".join(lines), "utf-8")
    return folder


def _compared(tmp_path: Path, offsets: range, epochs: dict[int, int], value: bytes = b"value") -> list[str]:
    one = _replica(tmp_path / "one", range(6), EPOCHS)
    other = _replica(tmp_path / "other", offsets, epochs, value)
    return differences([one, other], [PLACE])


def test_equal_replicas_do_not_differ(tmp_path: Path) -> None:
    """A leader may know an epoch in which nothing was written yet."""
    assert _compared(tmp_path, range(6), {**EPOCHS, 2: 6}) == []


def test_a_log_that_begins_later_is_compared_from_there(tmp_path: Path) -> None:
    assert _compared(tmp_path, range(2, 6), {1: 2}) == []
    assert _compared(tmp_path / "more", range(4, 6), {1: 4}) == []


def test_a_missing_end_is_found(tmp_path: Path) -> None:
    found = _compared(tmp_path, range(4), EPOCHS)
    assert found == ["topic-0: the ends are [6, 4]", "topic-0: the batches from 0 differ"]


def test_another_record_is_found(tmp_path: Path) -> None:
    assert _compared(tmp_path, range(6), EPOCHS, b"other") == ["topic-0: the batches from 0 differ"]


def test_another_epoch_is_found(tmp_path: Path) -> None:
    (found,) = _compared(tmp_path, range(6), {0: 0, 1: 4})
    assert found.startswith("topic-0: the leader epochs are")
