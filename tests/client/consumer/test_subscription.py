"""What a consumer reads, and how far it is."""

from __future__ import annotations

from typing import Any, cast

import pytest

from barnabas.client.consumer.subscription import Mode, PartitionState, Subscription
from barnabas.client.model import NO_EPOCH, TopicPartition

WHERE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def read_ahead() -> PartitionState:
    state = PartitionState(WHERE)
    state.seek(5, 2)
    state.fetch_offset = 20
    state.completed_fetches.append(cast("Any", "records read ahead"))
    return state


def test_a_seek_drops_what_was_read_ahead() -> None:
    state = read_ahead()
    state.reset(-1)
    assert not state.has_position
    assert not state.is_fresh, "it is known what to look up"
    state.completed_fetches.append(cast("Any", "late ones"))
    state.seek(9)
    assert (state.position, state.fetch_offset, state.offset_epoch) == (9, 9, NO_EPOCH)
    assert not state.completed_fetches
    assert state.has_position


def test_a_reset_drops_what_was_read_ahead() -> None:
    state = read_ahead()
    state.reset(-2)
    assert not state.completed_fetches
    assert state.reset_to == -2


def test_partitions_that_stay_keep_their_positions() -> None:
    subscription = Subscription()
    subscription.assign([WHERE, OTHER])
    subscription.state(WHERE).seek(7)
    subscription.assign([WHERE])
    assert subscription.state(WHERE).position == 7
    with pytest.raises(ValueError, match="not assigned"):
        subscription.state(OTHER)
    subscription.assign([OTHER, WHERE])
    assert subscription.state(OTHER).is_fresh, "a partition that returns has no position"


def test_subscribing_and_assigning_exclude_each_other() -> None:
    subscription = Subscription()
    subscription.assign([WHERE])
    with pytest.raises(RuntimeError, match="unsubscribe"):
        subscription.subscribe(["t"])
    subscription.clear()
    before = subscription.generation
    subscription.subscribe(["t"])
    assert subscription.mode is Mode.TOPICS
    assert subscription.generation > before
    with pytest.raises(RuntimeError, match="unsubscribe"):
        subscription.assign([WHERE])
