from __future__ import annotations

import pytest

from barnabas.runtime.random import SeededRandom
from barnabas.storage.log import log_files


def test_file_names_have_twenty_digits() -> None:  # M-E1
    assert log_files.of_offset(42, log_files.LOG) == "00000000000000000042.log"
    assert log_files.of_offset(2**63 - 1, log_files.INDEXES[0]) == "09223372036854775807.index"
    assert log_files.offset_in("00000000000000000042.timeindex.deleted") == 42
    for other in ("leader-epoch-checkpoint", "00000000000000000128-0000000001.checkpoint", "x.log", "٣.log"):
        assert log_files.offset_in(other) is None


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("orders-0", ("orders", 0)),
        ("a-b.c-12", ("a-b.c", 12)),
        ("gone-1.948a1b1497e440e996624273be35a475-delete", ("gone", 1)),
        ("my.topic-3.948a1b1497e440e996624273be35a475-future", ("my.topic", 3)),
        ("orders-7.948a1b1497e440e996624273be35a475-stray", ("orders", 7)),
    ],
)
def test_folder_names(name: str, parsed: tuple[str, int]) -> None:
    assert log_files.parse_folder(name) == parsed


@pytest.mark.parametrize("name", ["", "orders", "orders-", "-0", "orders-x", "lost+found", "orders-0-delete"])
def test_other_folders_are_refused_with_advice(name: str) -> None:
    with pytest.raises(ValueError, match="move it elsewhere"):
        log_files.parse_folder(name)


def test_names_of_folders_on_the_way_lead_back_and_stay_legal() -> None:
    random = SeededRandom(3)
    name = log_files.folder_on_the_way("orders", 4, log_files.DELETE_FOLDER, random)
    assert log_files.parse_folder(name) == ("orders", 4)
    assert len(name) == len("orders-4.") + 32 + len("-delete")
    assert len(log_files.folder_on_the_way("t" * 249, 4, log_files.DELETE_FOLDER, random)) == 255
