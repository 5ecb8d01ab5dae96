"""A follower as its leader sees it."""

from __future__ import annotations

from barnabas.replica.follower_state import LONG_AGO_NS, Follower

LAG = 100


def fetched(follower: Follower, offset: int, leader_end: int, now: int) -> None:
    follower.fetched(offset, 0, -1, leader_end, now)


def test_a_follower_that_reads_to_the_end_is_caught_up() -> None:
    follower = Follower(2)
    assert follower.caught_up_ns == LONG_AGO_NS
    fetched(follower, 10, leader_end=10, now=5)
    assert follower.caught_up_ns == 5
    assert follower.is_caught_up(10, 1000, LAG)


def test_a_follower_that_was_at_the_end_at_its_last_fetch_was_caught_up_then() -> None:
    """A follower of a busy leader is always slightly behind, and in sync all the same."""
    follower = Follower(2)
    fetched(follower, 0, leader_end=10, now=5)
    assert follower.caught_up_ns == LONG_AGO_NS
    fetched(follower, 10, leader_end=20, now=50)
    assert follower.caught_up_ns == 5
    fetched(follower, 20, leader_end=30, now=90)
    assert follower.caught_up_ns == 50
    assert follower.is_caught_up(30, 150, LAG)
    assert not follower.is_caught_up(30, 151, LAG)


def test_a_follower_that_falls_behind_keeps_its_last_caught_up_time() -> None:
    follower = Follower(2)
    fetched(follower, 10, leader_end=10, now=5)
    fetched(follower, 11, leader_end=50, now=60)
    fetched(follower, 12, leader_end=90, now=70)
    assert follower.caught_up_ns == 5
    assert follower.leader_end_at_fetch == 90


def test_a_new_leader_resets_its_followers_but_gives_the_isr_time() -> None:
    follower = Follower(2)
    follower.fetched(10, 3, 77, 10, 5)
    follower.begin_epoch(200, 10, new_leader=True, in_sync=True)
    assert (follower.end_offset, follower.log_start_offset, follower.broker_epoch) == (-1, -1, None)
    assert follower.caught_up_ns == 200
    follower.begin_epoch(300, 10, new_leader=True, in_sync=False)
    assert follower.caught_up_ns == LONG_AGO_NS


def test_a_re_elected_leader_keeps_its_state() -> None:
    follower = Follower(2)
    follower.fetched(10, 3, 77, 10, 5)
    follower.begin_epoch(200, 12, new_leader=False, in_sync=True)
    assert (follower.end_offset, follower.broker_epoch) == (10, 77)
    assert (follower.leader_end_at_fetch, follower.fetched_ns) == (12, 200)
