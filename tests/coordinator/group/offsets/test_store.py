"""The store of offsets: what is committed, what is pending, and what the end of a transaction makes of it."""

from __future__ import annotations

from barnabas.coordinator.group.offsets.store import OffsetStore

OLD, NEW, NEWER = b"old", b"new", b"newer"


def test_offsets_are_kept_by_group_topic_and_partition() -> None:
    store = OffsetStore()
    store.put("g", "t", 0, OLD)
    store.put("g", "t", 0, NEW)
    store.put("g", "u", 7, OLD)
    store.put("h", "t", 0, OLD)
    assert store.get("g", "t", 0) == NEW
    assert store.get("g", "t", 1) is None
    assert store.get("g", "v", 0) is None
    assert store.get("i", "t", 0) is None
    assert store.of_group("g") == {"t": {0: NEW}, "u": {7: OLD}}
    assert store.of_group("i") == {}
    assert list(store.groups()) == ["g", "h"]
    assert store.count() == 3


def test_a_tombstone_takes_one_offset_and_leaves_no_empty_shell() -> None:
    store = OffsetStore()
    store.put("g", "t", 0, OLD)
    store.put("g", "t", 1, OLD)
    assert store.remove("g", "t", 0) is False
    assert store.remove("g", "t", 1) is True
    assert store.remove("g", "t", 1) is True
    assert list(store.groups()) == []


def test_a_name_is_kept_once() -> None:
    store = OffsetStore()
    for group in ("g", "h"):
        store.put(group, "".join(["to", "pic"]), 0, OLD)
    (first,), (second,) = store.of_group("g"), store.of_group("h")
    assert first is second


def test_a_pending_offset_is_not_shown_before_its_marker() -> None:
    store = OffsetStore()
    store.put("g", "t", 0, OLD)
    store.put_pending(1, "g", "t", 0, NEW)
    store.put_pending(1, "g", "t", 1, NEW)
    store.put_pending(1, "h", "t", 0, NEW)
    assert store.get("g", "t", 0) == OLD
    assert store.get("g", "t", 1) is None
    assert store.is_pending("g", "t", 0)
    assert not store.is_pending("g", "t", 2)
    assert set(store.pending_of("g")) == {("t", 0), ("t", 1)}
    assert store.end(1, committed=True) == {"g": 2, "h": 1}
    assert store.of_group("g") == {"t": {0: NEW, 1: NEW}}
    assert store.get("h", "t", 0) == NEW
    assert not store.has_open_transactions
    assert not store.has_pending("g")


def test_an_aborted_transaction_leaves_nothing() -> None:
    store = OffsetStore()
    store.put("g", "t", 0, OLD)
    store.put_pending(1, "g", "t", 0, NEW)
    assert store.end(1, committed=False) == {"g": 1}
    assert store.of_group("g") == {"t": {0: OLD}}
    assert not store.is_pending("g", "t", 0)


def test_a_marker_of_a_stranger_means_nothing() -> None:
    store = OffsetStore()
    assert store.end(1, committed=True) == {}


def test_the_later_commit_wins_over_a_transaction_that_ends_after_it() -> None:
    store = OffsetStore()
    store.put_pending(1, "g", "t", 0, OLD)
    store.put("g", "t", 0, NEW)
    assert store.is_pending("g", "t", 0), "its transaction is still open"
    store.end(1, committed=True)
    assert store.get("g", "t", 0) == NEW


def test_a_pending_offset_that_came_later_wins() -> None:
    store = OffsetStore()
    store.put("g", "t", 0, OLD)
    store.put_pending(1, "g", "t", 0, NEW)
    store.end(1, committed=True)
    assert store.get("g", "t", 0) == NEW


def test_of_two_transactions_the_later_word_wins_in_whatever_order_they_end() -> None:
    for first, second in ((1, 2), (2, 1)):
        store = OffsetStore()
        store.put_pending(1, "g", "t", 0, OLD)
        store.put_pending(2, "g", "t", 0, NEW)
        store.end(first, committed=True)
        assert store.is_pending("g", "t", 0)
        store.end(second, committed=True)
        assert store.get("g", "t", 0) == NEW


def test_only_a_committed_transaction_overtakes() -> None:
    store = OffsetStore()
    store.put_pending(1, "g", "t", 0, OLD)
    store.put_pending(2, "g", "t", 0, NEW)
    store.end(2, committed=False)
    store.end(1, committed=True)
    assert store.get("g", "t", 0) == OLD


def test_the_last_word_of_a_transaction_counts() -> None:
    store = OffsetStore()
    store.put_pending(1, "g", "t", 0, OLD)
    store.put_pending(2, "g", "t", 0, NEW)
    store.put_pending(1, "g", "t", 0, NEWER)
    store.end(1, committed=True)
    store.end(2, committed=True)
    assert store.get("g", "t", 0) == NEWER


def test_an_overtaken_offset_counts_again_when_its_producer_renews_it() -> None:
    store = OffsetStore()
    store.put_pending(1, "g", "t", 0, OLD)
    store.put("g", "t", 0, NEW)
    store.put_pending(1, "g", "t", 0, NEWER)
    store.end(1, committed=True)
    assert store.get("g", "t", 0) == NEWER


def test_a_tombstone_takes_pending_offsets_too() -> None:
    store = OffsetStore()
    store.put_pending(1, "g", "t", 0, OLD)
    store.put_pending(2, "g", "t", 0, OLD)
    store.put_pending(2, "g", "t", 1, OLD)
    store.remove("g", "t", 0)
    assert not store.is_pending("g", "t", 0)
    assert list(store.pending()) == [("g", "t", 1)]
    assert store.end(1, committed=True) == {}
    assert store.end(2, committed=True) == {"g": 1}
    assert store.of_group("g") == {"t": {1: OLD}}
