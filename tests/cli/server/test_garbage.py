"""The garbage collector of a server: seldom during the start, then as usual, without what is there to stay."""

from __future__ import annotations

import gc

from barnabas.cli.server.garbage import OBJECTS_AT_START, USUAL, collect_as_usual, collect_seldom


def test_it_collects_seldom_during_the_start_only() -> None:
    # M-H3
    before = gc.get_threshold()
    try:
        collect_seldom()
        assert gc.get_threshold() == (OBJECTS_AT_START, *USUAL[1:])
        circle: list[object] = []
        circle.append(circle)
        del circle
        collect_as_usual()
        assert gc.get_threshold() == USUAL
        assert gc.get_freeze_count() > 0
        assert gc.collect(0) == 0, "what was garbage is not kept for good"
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
