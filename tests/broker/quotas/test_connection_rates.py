"""Rates of new connections (KIP-612): who waits, who is turned away, and for how long."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.base.units import NS_PER_MS
from barnabas.broker.network import listener as listener_module
from barnabas.broker.quotas import connection_rates
from barnabas.broker.quotas.connection_rates import CONNECTION_RATE, SERVED_AT_ONCE, Arrival, ConnectionRates
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.records.metadata import ClientQuotaRecord
from tests.broker.worlds.front_world import CLOSED, Front, node_of

RATE = "max.connection.creation.rate"
# A new client may use ten seconds of its rate at once.
BURST_S = 10


def rates(*exempt: str, **given: Any) -> ConnectionRates:
    return ConnectionRates(node_of(**given).settings, ("PLAINTEXT", "EXTERNAL"), exempt)


def quota(address: str | None, rate: float | None) -> ClientQuotaRecord:
    entity = [ClientQuotaRecord.EntityData(entity_type="ip", entity_name=address)]
    return ClientQuotaRecord(entity=entity, key=CONNECTION_RATE, value=rate or 0.0, remove=rate is None)


def image_with(*records: ClientQuotaRecord) -> Image:
    delta = Delta(EMPTY_IMAGE)
    for record in records:
        delta.replay(record)
    return delta.image


def arrive(connections: ConnectionRates, count: int, host: str = "a", now_ms: int = 0) -> Arrival:
    """So many connections, all of them served at once; returns what becomes of the next one."""
    for _ in range(count):
        assert connections.arrived("EXTERNAL", host, now_ms) == SERVED_AT_ONCE
    return connections.arrived("EXTERNAL", host, now_ms)


def test_without_limits_nothing_is_counted() -> None:
    connections = rates()
    assert arrive(connections, 1000) == SERVED_AT_ONCE
    assert connections._rate.last_ms == 0
    assert not connections._rate_of_address


@pytest.mark.parametrize(("rate", "delay_ms"), [("2", 500), ("5", 200), ("100", 10)])
def test_above_the_rate_of_the_broker_connections_wait(rate: str, delay_ms: int) -> None:
    """The one that is too many brings the rate down to the limit."""
    connections = rates(max_connection_creation_rate=rate)
    assert arrive(connections, BURST_S * int(rate)) == Arrival(delay_ms=delay_ms)


def test_no_connection_waits_longer_than_a_window() -> None:
    connections = rates(max_connection_creation_rate="1")
    for _ in range(30):
        last = connections.arrived("EXTERNAL", "a", 0)
    assert last == Arrival(delay_ms=1000)


def test_a_rate_of_zero_lets_one_connection_in_each_window() -> None:
    assert rates(max_connection_creation_rate="0").arrived("EXTERNAL", "a", 0) == Arrival(delay_ms=1000)


def test_listeners_have_rates_of_their_own() -> None:
    """The narrower one holds; a listener that is exempt does not count for the broker."""
    connections = rates(
        "PLAINTEXT", **{RATE: "50", f"listener.name.external.{RATE}": "2", "quota.window.num": "2"}
    )
    assert arrive(connections, 2).delay_ms > 0
    for _ in range(40):
        assert connections.arrived("PLAINTEXT", "a", 0) == SERVED_AT_ONCE
    assert connections._rate.measure(0) == 3


def test_above_the_rate_of_its_address_a_connection_is_turned_away_and_not_counted() -> None:
    connections = rates(max_connection_creation_rate="1000")
    connections.load(image_with(quota("10.0.0.1", 2)))
    assert arrive(connections, 20, "10.0.0.1") == Arrival(turned_away_ms=500)
    assert arrive(connections, 0, "10.0.0.1") == Arrival(turned_away_ms=500)
    assert connections._rate.measure(0) == pytest.approx(2), "twenty in ten seconds"
    assert arrive(connections, 21, "10.0.0.2") == SERVED_AT_ONCE
    assert arrive(connections, 0, "10.0.0.1", now_ms=10_499) == Arrival(turned_away_ms=1)
    assert arrive(connections, 0, "10.0.0.1", now_ms=10_500) == SERVED_AT_ONCE


@pytest.mark.parametrize(
    ("quota_of", "host"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("FE80::1", "fe80::1%eth0"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("localhost", "127.0.0.1"),
        (None, "10.0.0.1"),
    ],
)
def test_an_address_has_several_forms(quota_of: str | None, host: str) -> None:
    connections = rates()
    connections.load(image_with(quota(quota_of, 1)))
    assert arrive(connections, BURST_S, host).turned_away_ms == 1000


def test_the_quota_of_an_address_goes_before_the_default_and_both_may_change() -> None:
    connections = rates()
    connections.load(image_with(quota(None, 1), quota("10.0.0.1", 3)))
    assert arrive(connections, 3 * BURST_S, "10.0.0.1").turned_away_ms == 333
    assert arrive(connections, BURST_S, "10.0.0.2").turned_away_ms == 1000
    delta = Delta(image_with(quota(None, 1), quota("10.0.0.1", 3)))
    delta.replay(quota("10.0.0.1", None))
    delta.replay(quota(None, 100))
    connections.apply(delta)
    assert arrive(connections, 0, "10.0.0.1") == SERVED_AT_ONCE
    delta = Delta(delta.image)
    delta.replay(quota(None, None))
    connections.apply(delta)
    assert arrive(connections, 1000, "10.0.0.2") == SERVED_AT_ONCE


def test_idle_addresses_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_rates, "MAX_ADDRESSES", 2)
    connections = rates()
    connections.load(image_with(quota(None, 1)))
    assert arrive(connections, BURST_S, "a").turned_away_ms
    assert arrive(connections, BURST_S, "b").turned_away_ms
    assert arrive(connections, 100, "c") == SERVED_AT_ONCE, "there is no room to count it"
    assert arrive(connections, BURST_S, "c", now_ms=11_000).turned_away_ms


# On a broker's listener ------------------------------------------------------------------------------------


class Pace:
    """Throttle times that a test ends itself: each is a minute."""

    def __init__(self, front: Front, monkeypatch: pytest.MonkeyPatch, *arrivals: Arrival) -> None:
        left = list(arrivals)
        rates = front.broker.connection_limits.rates
        monkeypatch.setattr(rates, "arrived", lambda *_: left.pop(0) if left else SERVED_AT_ONCE)
        self._broker_listener = front.broker.listeners["PLAINTEXT"]
        self._timers: dict[object, Any] = {}
        timers = self._broker_listener._timers

        def keep(key: Any, deadline_ns: int, action: Any) -> None:
            self._timers[key[1]] = action
            timers.set(key, deadline_ns, action)

        kept = SimpleNamespace(set=keep, cancel=timers.cancel)
        monkeypatch.setattr(self._broker_listener, "_timers", kept)

    def over(self, *keys: str) -> None:
        self._broker_listener._accepts_again_ns = 0
        for key in keys:
            self._timers[key]()


MINUTE_MS = 60_000


def test_a_delayed_connection_and_those_after_it_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    with Front(monkeypatch) as front:
        pace = Pace(front, monkeypatch, SERVED_AT_ONCE, Arrival(delay_ms=MINUTE_MS))
        first = front.connect()
        assert first.ask(ApiVersionsRequest(), 0).error_code == 0
        late, later = front.connect(), front.connect()
        for wire in (late, later):
            wire.send(b"\0\0\0\x0d\0\x12\0\0\0\0\0\x07\0\x03abc")
        front.until(lambda: front.broker.metrics.connections_accepted == 2)
        assert first.ask(ApiVersionsRequest(), 0).error_code == 0
        assert late.is_unanswered()
        assert front.broker.metrics.connections_accepted == 2, "the third waits in the backlog"
        pace.over("silent", "rate")
        assert late.frame() != CLOSED
        assert later.frame() != CLOSED


def test_a_connection_that_is_turned_away_is_held_and_then_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with Front(monkeypatch) as front:
        pace = Pace(front, monkeypatch, Arrival(turned_away_ms=MINUTE_MS))
        away = front.connect()
        away.send(b"\0\0\0\x0d\0\x12\0\0\0\0\0\x07\0\x03abc")
        assert front.ask(ApiVersionsRequest(), 0).error_code == 0
        assert away.is_unanswered()
        assert front.broker.metrics.connections_refused == 1
        assert front.broker.connection_limits.total <= 1, "it does not count as a connection"
        pace.over("wait")
        assert away.frame() == CLOSED


def test_only_so_many_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "MAX_TURNED_AWAY", 1)
    with Front(monkeypatch) as front:
        Pace(front, monkeypatch, Arrival(turned_away_ms=MINUTE_MS), Arrival(turned_away_ms=MINUTE_MS))
        held, closed = front.connect(), front.connect()
        assert closed.frame() == CLOSED
        assert held.is_unanswered()


def test_the_rate_of_a_broker_is_that_of_its_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The accepting side asks with the time of its own clock, and its limits are those of the settings."""
    with Front(monkeypatch, max_connection_creation_rate="3", quota_window_num="2") as front:
        for _ in range(3):
            assert front.ask(ApiVersionsRequest(), 0).error_code == 0
        broker_listener = front.broker.listeners["PLAINTEXT"]
        assert broker_listener._accepts_again_ns == 0
        front.connect()
        front.until(lambda: broker_listener._accepts_again_ns > 0)
        wait_ns = broker_listener._accepts_again_ns - broker_listener.clock.monotonic_ns()
        assert wait_ns <= 1000 * NS_PER_MS
