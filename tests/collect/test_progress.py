"""What is written without a gap."""

from __future__ import annotations

from barnabas.collect.progress import Progress


def test_a_gap_holds_the_position_back() -> None:
    progress = Progress(100)
    first, second, third = (progress.send(position) for position in (200, 300, 400))
    assert not progress.acknowledge(second)
    assert progress.written == 100
    assert progress.acknowledge(first)
    assert progress.written == 300
    assert not progress.is_all_written
    assert progress.acknowledge(third)
    assert progress.written == 400
    assert progress.is_all_written
