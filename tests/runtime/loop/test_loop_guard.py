"""The guard over a loop: what it calls a fault."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from barnabas.runtime.clock import thread_cpu_ns
from barnabas.runtime.loop.loop_guard import LIMIT_NS, SLOW_MACHINE_FACTOR, LoopGuard

LONGEST_NS = LIMIT_NS * SLOW_MACHINE_FACTOR


@pytest.fixture
def guard() -> LoopGuard:
    guard = LoopGuard()
    guard.is_armed = True
    return guard


def test_a_long_tick_is_a_fault(guard: LoopGuard) -> None:
    guard.ticked(LONGEST_NS)
    guard.check()
    guard.ticked(LONGEST_NS + 1)
    with pytest.raises(AssertionError, match=r"a tick took 200\.0 ms"):
        guard.check()


def test_the_time_of_the_garbage_collector_does_not_count(guard: LoopGuard) -> None:
    began_ns = thread_cpu_ns()
    gc.collect()
    at_most_ns = thread_cpu_ns() - began_ns
    guard.ticked(LONGEST_NS + 1)
    guard.check()
    guard.ticked(LONGEST_NS + 1)
    assert len(guard.faults) == 1, "it counts for its own tick only"
    guard.faults.clear()
    gc.collect()
    guard.ticked(LONGEST_NS + 2 * at_most_ns + 1_000_000_000)
    assert len(guard.faults) == 1, "no more than it took is taken off"


def test_a_collection_on_another_thread_is_not_taken_off(guard: LoopGuard) -> None:
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join()
    guard.ticked(LONGEST_NS + 1)
    assert len(guard.faults) == 1


def test_a_guard_without_users_hears_nothing() -> None:
    before = len(gc.callbacks)
    guard = LoopGuard()
    reference = weakref.ref(guard)
    assert len(gc.callbacks) == before + 1
    del guard
    assert reference() is None
    assert len(gc.callbacks) == before
