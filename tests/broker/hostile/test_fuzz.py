"""Hostile frames over real sockets; `make fuzz` sends a million of them."""

from __future__ import annotations

from collections import Counter

from barnabas.testing.hostile.fuzz import FrameMaker, Kind
from tests.broker.worlds.live_broker import live_broker
from tools.fuzz import Campaign, routes

FRAMES = 6_400
# A test must not depend on the speed of the machine: what takes as long as this hangs.
PATIENCE_S = 120


def test_a_frame_is_decided_by_its_seed() -> None:
    one, other = FrameMaker(routes()), FrameMaker(routes())
    frames = [one.make(seed) for seed in range(2_000)]
    assert frames == [other.make(seed) for seed in range(2_000)]
    assert len({frame.data for frame in frames}) > 1_900
    assert set(Counter(frame.kind for frame in frames)) == set(Kind)


def test_every_api_and_version_is_among_them() -> None:
    served = {
        (route.api.key, version) for route in routes() for version in range(route.lowest, route.highest + 1)
    }
    maker = FrameMaker(routes())
    whole = [frame.data for frame in map(maker.make, range(60_000)) if frame.kind is Kind.WHOLE]
    sent = {(int.from_bytes(data[4:6], "big"), int.from_bytes(data[6:8], "big")) for data in whole}
    left_out = {(64, 0)}
    assert sent == served - left_out


def test_hostile_frames_do_no_harm() -> None:
    with live_broker() as broker:
        report = Campaign(broker, 0, patience_s=PATIENCE_S).run(FRAMES)
        assert not report.faults, report
        assert report.rounds == FRAMES
        outcomes: Counter[str] = Counter()
        for (_, outcome), count in report.outcomes.items():
            outcomes[outcome] += count
        assert outcomes["answered"] > FRAMES // 10
        assert outcomes["closed"] > FRAMES // 2
        assert report.healthy_answers > 0
