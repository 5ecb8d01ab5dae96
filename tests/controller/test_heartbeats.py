"""The soft state of brokers: sessions, and the state that a heartbeat leads to (KIP-631)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.controller.brokers.heartbeats import BrokerState, Heartbeats
from barnabas.metadata.cluster import Broker
from tests.controller.lab import Lab

TIMEOUT_NS = 100
FENCED, UNFENCED = BrokerState.FENCED, BrokerState.UNFENCED
SHUTDOWN, NOW = BrokerState.CONTROLLED_SHUTDOWN, BrokerState.SHUTDOWN_NOW


@pytest.fixture(scope="module")
def registered() -> Broker:
    """A broker that is not fenced."""
    lab = Lab()
    lab.join()
    return lab.image.brokers[1]


def started(*brokers: Broker, now_ns: int = 0) -> Heartbeats:
    heartbeats = Heartbeats(TIMEOUT_NS)
    heartbeats.activate(brokers, now_ns)
    return heartbeats


def state_after(
    heartbeats: Heartbeats,
    *,
    want_fence: bool = False,
    want_shut_down: bool = False,
    caught_up: bool = True,
    leads: bool = False,
) -> tuple[BrokerState, BrokerState]:
    return heartbeats.next_state(
        1, want_fence=want_fence, want_shut_down=want_shut_down, caught_up=caught_up, leads=lambda: leads
    )


def test_an_unfenced_broker_changes_only_at_its_own_request(registered: Broker) -> None:
    heartbeats = started(registered)
    assert state_after(heartbeats) == (UNFENCED, UNFENCED)
    assert state_after(heartbeats, caught_up=False) == (UNFENCED, UNFENCED)
    assert state_after(heartbeats, want_fence=True) == (UNFENCED, FENCED)
    assert state_after(heartbeats, want_fence=True, want_shut_down=True) == (UNFENCED, NOW)
    assert state_after(heartbeats, want_shut_down=True, leads=True) == (UNFENCED, SHUTDOWN)
    assert state_after(heartbeats, want_shut_down=True) == (UNFENCED, NOW)


def test_a_fenced_broker_is_unfenced_once_it_has_caught_up(registered: Broker) -> None:
    heartbeats = started(replace(registered, fenced=True))
    assert state_after(heartbeats) == (FENCED, UNFENCED)
    assert state_after(heartbeats, caught_up=False) == (FENCED, FENCED)
    assert state_after(heartbeats, want_fence=True) == (FENCED, FENCED)
    assert state_after(heartbeats, want_shut_down=True, leads=True) == (FENCED, NOW)


def test_a_broker_that_the_controller_has_fenced_can_return(registered: Broker) -> None:
    """Its lease follows the record, so that the next heartbeat asks for an unfencing."""
    heartbeats = started(registered)
    heartbeats.start_shutdown(1, 7)
    heartbeats.changed(replace(registered, fenced=True))
    assert not heartbeats.is_shutting_down(1)
    assert state_after(heartbeats) == (FENCED, UNFENCED)
    heartbeats.changed(registered)
    assert state_after(heartbeats) == (UNFENCED, UNFENCED)


def test_a_session_ends_with_a_granted_shutdown_and_not_with_fencing(registered: Broker) -> None:
    heartbeats = started(registered)
    heartbeats.changed(replace(registered, fenced=True))
    assert heartbeats.has_session(1, registered.epoch, 0), "it still sends heartbeats"
    heartbeats.end_session(1)
    assert not heartbeats.has_session(1, registered.epoch, 0)
    assert list(heartbeats.expired(TIMEOUT_NS * 2)) == []


def test_a_changed_registration_keeps_its_session_and_a_new_one_has_none(registered: Broker) -> None:
    heartbeats = started(registered, now_ns=5)
    heartbeats.registered(replace(registered, rack="r"))
    assert heartbeats.has_session(1, registered.epoch, 5)
    heartbeats.registered(replace(registered, epoch=registered.epoch + 1))
    assert not heartbeats.has_session(1, registered.epoch + 1, 5)
    heartbeats.record_contact(1, registered.epoch, 5)
    assert not heartbeats.has_session(1, registered.epoch + 1, 5), "that was the broker of before"
    heartbeats.record_contact(1, registered.epoch + 1, 5)
    assert heartbeats.has_session(1, registered.epoch + 1, 5)
    assert not heartbeats.has_session(1, registered.epoch, 5)


def test_a_session_lasts_exactly_as_long_as_configured(registered: Broker) -> None:
    heartbeats = started(registered, now_ns=5)
    assert list(heartbeats.expired(5 + TIMEOUT_NS)) == []
    assert heartbeats.has_session(1, registered.epoch, 5 + TIMEOUT_NS)
    assert list(heartbeats.expired(6 + TIMEOUT_NS)) == [1]
    assert not heartbeats.has_session(1, registered.epoch, 6 + TIMEOUT_NS)
    heartbeats.changed(replace(registered, fenced=True))
    assert list(heartbeats.expired(6 + TIMEOUT_NS)) == [], "it is fenced already"
    heartbeats.removed(1)
    assert not heartbeats.is_shutting_down(1)
    assert not heartbeats.has_session(1, registered.epoch, 5)


def test_a_shutdown_waits_for_all_others_to_read_the_record(registered: Broker) -> None:
    others = [replace(registered, id=number) for number in (2, 3)]
    heartbeats = started(registered, *others, replace(registered, id=4, fenced=True))
    heartbeats.start_shutdown(1, 7)
    heartbeats.start_shutdown(1, 50)  # a repeated request, which moves nothing
    heartbeats.touch(2, fenced=False, metadata_offset=7)
    heartbeats.touch(3, fenced=False, metadata_offset=6)
    assert state_after(heartbeats) == (SHUTDOWN, SHUTDOWN)
    heartbeats.touch(3, fenced=False, metadata_offset=7)
    assert state_after(heartbeats, leads=True) == (SHUTDOWN, SHUTDOWN)
    assert state_after(heartbeats) == (SHUTDOWN, NOW)
    heartbeats.touch(1, fenced=True, metadata_offset=7)
    assert not heartbeats.is_shutting_down(1)
    assert state_after(heartbeats, want_fence=True) == (FENCED, FENCED)


def test_a_broker_alone_waits_for_none(registered: Broker) -> None:
    heartbeats = started(registered)
    heartbeats.start_shutdown(1, 7)
    assert state_after(heartbeats) == (SHUTDOWN, NOW)


def test_an_unregistered_broker_has_no_session(registered: Broker) -> None:
    heartbeats = started(registered, now_ns=5)
    assert heartbeats.silence_ns(1, 9) == 4
    heartbeats.start_shutdown(1, 7)
    heartbeats.removed(1)
    heartbeats.removed(1)
    assert not heartbeats.has_session(1, registered.epoch, 6)
    assert not heartbeats.is_shutting_down(1)
    assert heartbeats.silence_ns(1, 9) is None
    assert list(heartbeats.expired(6 + TIMEOUT_NS)) == []


def test_a_heartbeat_of_another_process_extends_no_session(registered: Broker) -> None:
    heartbeats = started(registered, now_ns=5)
    heartbeats.record_contact(1, registered.epoch - 1, 50)
    heartbeats.record_contact(2, registered.epoch, 50)
    assert (heartbeats.silence_ns(1, 60), heartbeats.silence_ns(2, 60)) == (55, None)
    heartbeats.record_contact(1, registered.epoch, 50)
    assert heartbeats.silence_ns(1, 60) == 10
