"""Writes of one file: one at a time, and the latest wins."""

from __future__ import annotations

import threading

import pytest

from barnabas.runtime.disk.latest import LatestWrite

PATIENCE_S = 120


def test_a_superseded_write_does_nothing() -> None:
    written: list[str] = []
    latest = LatestWrite()
    old, new = latest.plan(lambda: written.append("old")), latest.plan(lambda: written.append("new"))
    new()
    old()
    assert written == ["new"]
    latest.plan(lambda: written.append("newer"))()
    assert written == ["new", "newer"]


def test_a_failed_write_supersedes_nothing() -> None:
    def fail() -> None:
        raise OSError("full")

    written: list[str] = []
    latest = LatestWrite()
    old, new = latest.plan(lambda: written.append("old")), latest.plan(fail)
    with pytest.raises(OSError, match="full"):
        new()
    old()
    assert written == ["old"]


def test_writes_do_not_overlap() -> None:
    begun, go_on = threading.Event(), threading.Event()
    written: list[str] = []

    def slow() -> None:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        written.append("old")

    latest = LatestWrite()
    thread = threading.Thread(target=latest.plan(slow))
    thread.start()
    assert begun.wait(PATIENCE_S)
    new = threading.Thread(target=latest.plan(lambda: written.append("new")))
    new.start()
    assert written == []
    go_on.set()
    thread.join()
    new.join()
    assert written == ["old", "new"]
