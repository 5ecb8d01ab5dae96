"""The offset store: committed and pending offsets, and the effect of markers."""

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


def test_a_tombstone_removes_one_offset_and_its_empty_containers() -> None:
    store = OffsetStore()
    store.put("g", "t", 0, OLD)
    store.put("g", "t", 1, OLD)
    assert store.remove("g", "t", 0) is False
    assert store.remove("g", "t", 1) is True
    assert store.remove("g", "t", 1) is True
    assert list(store.groups()) == []


def test_a_topic_name_is_stored_once() -> None:
    store = OffsetStore()
    for group in ("g", "h"):
        store.put(group, "".join(["to", "pic"]), 0, OLD)
    (first,), (second,) = store.of_group("g"), store.of_group("h")
    assert first is second


def test_a_pending_offset_is_invisible_until_its_marker() -> None:
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
    assert store.complete_transaction(1, committed=True) == {"g": 2, "h": 1}
    assert store.of_group("g") == {"t": {0: NEW, 1: NEW}}
    assert store.get("h", "t", 0) == NEW
    assert not store.has_open_transactions
    assert not store.has_pending("g")


def test_an_aborted_transaction_has_no_effect() -> None:
    store = OffsetStore()
    store.put("g", "t", 0, OLD)
    store.put_pending(1, "g", "t", 0, NEW)
    assert store.complete_transaction(1, committed=False) == {"g": 1}
    assert store.of_group("g") == {"t": {0: OLD}}
    assert not store.is_pending("g", "t", 0)


def test_a_marker_of_an_unknown_producer_is_ignored() -> None:
    store = OffsetStore()
    assert store.complete_transaction(1, committed=True) == {}


def test_the_later_commit_wins_over_a_transaction_that_ends_after_it() -> None:
    store = OffsetStore()
    store.put_pending(1, "g", "t", 0, OLD)
    store.put("g", "t", 0, NEW)
    assert store.is_pending("g", "t", 0), "its transaction is still open"
    store.complete_transaction(1, committed=True)
    assert store.get("g", "t", 0) == NEW


def test_a_later_pending_offset_wins() -> None:
    store = OffsetStore()
    store.put("g", "t", 0, OLD)
    store.put_pending(1, "g", "t", 0, NEW)
    store.complete_transaction(1, committed=True)
    assert store.get("g", "t", 0) == NEW


def test_the_later_of_two_transactional_commits_wins_in_any_completion_order() -> None:
    for first, second in ((1, 2), (2, 1)):
        store = OffsetStore()
        store.put_pending(1, "g", "t", 0, OLD)
        store.put_pending(2, "g", "t", 0, NEW)
        store.complete_transaction(first, committed=True)
        assert store.is_pending("g", "t", 0)
        store.complete_transaction(second, committed=True)
        assert store.get("g", "t", 0) == NEW


def test_only_a_committed_transaction_supersedes() -> None:
    store = OffsetStore()
    store.put_pending(1, "g", "t", 0, OLD)
    store.put_pending(2, "g", "t", 0, NEW)
    store.complete_transaction(2, committed=False)
    store.complete_transaction(1, committed=True)
    assert store.get("g", "t", 0) == OLD


def test_the_last_commit_of_a_transaction_counts() -> None:
    store = OffsetStore()
    store.put_pending(1, "g", "t", 0, OLD)
    store.put_pending(2, "g", "t", 0, NEW)
    store.put_pending(1, "g", "t", 0, NEWER)
    store.complete_transaction(1, committed=True)
    store.complete_transaction(2, committed=True)
    assert store.get("g", "t", 0) == NEWER


def test_a_superseded_offset_counts_again_when_committed_again() -> None:
    store = OffsetStore()
    store.put_pending(1, "g", "t", 0, OLD)
    store.put("g", "t", 0, NEW)
    store.put_pending(1, "g", "t", 0, NEWER)
    store.complete_transaction(1, committed=True)
    assert store.get("g", "t", 0) == NEWER


def test_a_tombstone_also_removes_pending_offsets() -> None:
    store = OffsetStore()
    store.put_pending(1, "g", "t", 0, OLD)
    store.put_pending(2, "g", "t", 0, OLD)
    store.put_pending(2, "g", "t", 1, OLD)
    store.remove("g", "t", 0)
    assert not store.is_pending("g", "t", 0)
    assert list(store.pending()) == [("g", "t", 1)]
    assert store.complete_transaction(1, committed=True) == {}
    assert store.complete_transaction(2, committed=True) == {"g": 1}
    assert store.of_group("g") == {"t": {1: OLD}}
