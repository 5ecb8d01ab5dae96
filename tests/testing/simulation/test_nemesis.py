"""The nemesis strikes with every kind of fault it was given, and repairs all of it when told to stop."""

from __future__ import annotations

import pytest

from barnabas.runtime.simulated.links import LinkFaults
from barnabas.runtime.simulated.world import Node, World
from barnabas.testing.simulation.nemesis import ALL_STRIKES, Nemesis, Strike

SECOND_NS = 1_000_000_000


def write_often(node: Node) -> None:
    """A node that uses its disk, so that power can fail in an operation."""

    file = node.disk.open("/file", create=True)

    def write() -> None:
        node.workers.submit(append, written)

    def append() -> None:
        file.append([b"x"])
        file.sync()

    def written(_: object, error: BaseException | None) -> None:
        if error is not None:
            node.halt(error)
        node.after(20_000_000, write)

    node.after(0, write)


def struck_world(seed: int, strikes: frozenset[Strike] = ALL_STRIKES) -> tuple[World, Nemesis]:
    world = World(seed, keep_trace=True)
    for node_id in range(3):
        world.add_node(node_id, write_often)
    nemesis = Nemesis(world, strikes=strikes, mean_pause_ns=20_000_000)
    world.run(3 * SECOND_NS)
    return world, nemesis


@pytest.mark.parametrize("strike", list(Strike))
def test_every_kind_strikes_and_is_repaired(strike: Strike) -> None:
    world, nemesis = struck_world(5, frozenset({strike}))
    trace = "\n".join(world.trace.lines)
    assert f"strike {strike.name}" in trace
    effect = {
        Strike.POWER_LOSS: "crash, power lost",
        Strike.POWER_LOSS_IN_OPERATION: "power lost in operation",
        Strike.KILL: "down: crash",
        Strike.PARTITION: "block ",
        Strike.ONE_WAY_LOSS: "block ",
        Strike.FAILED_WRITE: "No space left",
        Strike.FAILED_SYNC: "Input/output error",
    }.get(strike, "")
    assert effect in trace
    nemesis.stop()
    assert all(node.is_up for node in world.nodes.values())
    assert world.links.faults == LinkFaults()
    assert not any(world.links.is_blocked(a, b) for a in range(3) for b in range(3))
    before = sum("strike" in line for line in world.trace.lines)
    world.run(3 * SECOND_NS)
    assert sum("strike" in line for line in world.trace.lines) == before
    assert all(node.is_up for node in world.nodes.values())


def test_each_seed_draws_its_own_kinds() -> None:
    drawn = {tuple(struck_world(seed)[1].strikes) for seed in range(6)}
    assert len(drawn) > 3
    assert tuple(struck_world(1)[1].strikes) == tuple(struck_world(1)[1].strikes)
