"""F2: one small request stopped the broker; the stall attack, small and without a stopwatch.

The second client's wait is what counts, and `make fuzz` measures it on a quiet machine.  Here the processor's
time of one turn of the loop is held against a generous bound: what the attack found first took seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from barnabas.base.ids import Uuid
from barnabas.broker.metrics.registry import Metrics
from barnabas.broker.network.request_steps import SLICE_NS
from barnabas.broker.network.routes import Role, routes_for
from barnabas.config.option import Mode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.runtime.loop.reactor import Reactor
from barnabas.testing.hostile.stall_attack import Existing, Kind, StallAttack, attacks
from tests.broker.worlds.front_world import CLOSED, Front, Wire, node_of

SIZE = 60_000
# Of one turn of the loop, in seconds of the processor: a slice ends after five milliseconds, the collector of
# garbage and a machine with many tests may add to that.
LONGEST_TURN_S = 0.5
# What took longest: by repeats, by look-ups in lists, by answers of many megabytes.
WORST = ("DescribeConfigs", "DescribeTopicPartitions", "DeleteGroups", "DescribeGroups", "Metadata")


def chosen(*names: str) -> list[StallAttack]:
    """All kinds, of the highest version."""
    served = routes_for(Mode.KRAFT, Role.INTER_BROKER, node_of().settings, Metrics()).values()
    routes = [route for route in served if route.api.name in names]
    return [one for one in attacks(routes, [SIZE], every_version=False) if one.version == one.route.highest]


class Clocked:
    """Measures each turn of the loop by the processor's time of this thread."""

    def __init__(self, reactor: Reactor) -> None:
        self.longest_s = 0.0
        self._tick = reactor._tick
        reactor._tick = self._measured  # type: ignore[method-assign]  # what is measured

    def _measured(self, until_ns: int | None) -> list[tuple[int, int]]:
        began = time.thread_time()
        try:
            return self._tick(until_ns)
        finally:
            self.longest_s = max(self.longest_s, time.thread_time() - began)


@pytest.fixture(scope="module")
def front() -> Iterator[Front]:
    with pytest.MonkeyPatch.context() as patch, Front(patch) as front:
        yield front


@pytest.mark.parametrize("name", WORST)
def test_no_request_holds_the_loop(front: Front, name: str) -> None:
    second = front.connect()
    clocked = Clocked(front.reactor)
    slow: list[str] = []
    for attack in chosen(name):
        wire = front.connect()
        wire.send(attack.frame(Existing(names=("alpha", "beta"))))
        clocked.longest_s = 0.0
        serve(front, wire, second)
        if clocked.longest_s > LONGEST_TURN_S:
            slow.append(f"{attack.name}: {clocked.longest_s:.2f} s")
        wire.sock.close()
    assert not slow


def serve(front: Front, wire: Wire, second: Wire) -> None:
    """Until the attack is answered or closed; the second client is answered all the while."""
    while not (wire._has_frame() or wire._ended):
        second.ask(ApiVersionsRequest(), 0)


def test_large_requests_are_served_in_slices(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    """With slices of next to no time there are many of them, and others are served in between."""
    work = front.broker._work
    monkeypatch.setattr(work, "_slice_ns", 200_000)
    (attack,) = (
        one for one in chosen("FindCoordinator") if one.kind is Kind.UNKNOWN and one.fixed == {"key_type": 1}
    )
    before = work.slices
    wire = front.connect()
    wire.send(attack.frame(Existing()))
    second = front.connect()
    serve(front, wire, second)
    assert wire.frame() != CLOSED
    assert work.slices - before > 3
    assert SLICE_NS <= 10_000_000


def test_a_repeated_resource_is_described_once(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    """F2: DescribeConfigs naming broker 1 8,000 times took a minute and 5.9 GB."""
    (attack,) = (
        one
        for one in chosen("DescribeConfigs")
        if one.kind is Kind.REPEATED
        and one.path == ("resources",)
        and one.fixed.get("resource_type") == 4
        and "configuration_keys" in one.fixed
    )
    layers = type(front.broker.layers)
    described: list[object] = []
    describe = layers.describe_broker
    monkeypatch.setattr(layers, "describe_broker", lambda self: described.append(1) or describe(self))
    answer = front.ask(attack.request(Existing()), attack.version)
    assert len(described) == len(answer.results) == 1


def test_an_attack_has_its_size_and_its_kind() -> None:
    existing = Existing(names=("a", "b"))
    for attack in chosen("Metadata", "OffsetCommit"):
        assert SIZE // 2 < len(attack.frame(existing)) < 2 * SIZE, attack.name
    (unknown,) = (one for one in chosen("Metadata") if one.kind is Kind.UNKNOWN and "topic_id" in one.fixed)
    names = [topic.name for topic in unknown.request(existing).topics]  # type: ignore[attr-defined]  # Metadata
    assert len(names) == len(set(names)) > 1_000
    assert {one.path for one in chosen("OffsetCommit")} == {("topics",), ("topics", "partitions")}


def test_attacks_have_different_names() -> None:
    names = [attack.name for attack in chosen("DescribeConfigs", "Metadata", "DeleteTopics")]
    assert len(names) == len(set(names))


def test_existing_names_are_named_in_turn() -> None:
    (attack,) = (
        attack
        for attack in chosen("Metadata")
        if attack.kind is Kind.EXISTING and "topic_id" in attack.fixed and attack.path == ("topics",)
    )
    request = attack.request(Existing(names=("a", "b"), ids=(Uuid(bytes(15) + b"\1"),) * 3))
    names = [topic.name for topic in request.topics]  # type: ignore[attr-defined]  # Metadata
    assert names == ["b", "a"] * (len(names) // 2) + ["b"] * (len(names) % 2)
