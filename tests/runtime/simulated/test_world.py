"""The simulated world: lifecycle of nodes, power loss, slow disks, clocks, checkers, and reproducible
traces."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial

import pytest

from barnabas.base.effects import Event, Received
from barnabas.base.units import NS_PER_MS
from barnabas.runtime.simulated import world as world_module
from barnabas.runtime.simulated.disk_faults import Kind
from barnabas.runtime.simulated.links import LinkFaults
from barnabas.runtime.simulated.world import InvariantError, Node, World


class Ball:
    """The smallest program: returns what it receives, one higher."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.caught = 0

    def step(self, event: Event) -> None:
        assert isinstance(event, Received)
        assert isinstance(event.message, int)
        self.caught += 1
        self.node.send(event.sender, event.message + 1)


def ping_pong(seed: int) -> World:
    world = World(seed)
    world.links.faults = LinkFaults(duplicate=0.01)
    for node_id in (1, 2):
        world.add_node(node_id, Ball)
    world.nodes[1].send(2, 0)
    return world


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    digests = []
    for seed in (1, 1, 2):
        world = ping_pong(seed)
        world.run(200 * NS_PER_MS)
        assert world.trace.count > 100
        digests.append(world.trace.digest)
    assert digests[0] == digests[1] != digests[2]


def test_a_sync_on_the_loop_of_a_node_is_refused() -> None:
    """F9: it may sync while it boots, and on its workers."""
    world = World(1)

    def boot(node: Node) -> None:
        node.disk.make_folder("/data")
        node.disk.sync_folder("/")

    node = world.add_node(1, boot)
    heard: list[object] = []
    node.after(
        NS_PER_MS,
        lambda: node.workers.submit(lambda: node.disk.sync_folder("/data"), lambda *end: heard.append(end)),
    )
    world.run(10 * NS_PER_MS)
    assert heard == [(None, None)]
    node.after(NS_PER_MS, lambda: node.disk.sync_folder("/data"))
    with pytest.raises(InvariantError, match="sync_folder of /data on the loop"):
        world.run(10 * NS_PER_MS)


def test_draws_for_one_purpose_do_not_affect_another() -> None:
    one, other = World(1), World(1)
    one.random_for("more").integer(0, 100)
    assert one.random_for("x").integer(0, 10**9) == other.random_for("x").integer(0, 10**9)
    assert one.random_for("x").integer(0, 10**9) != one.random_for("y").integer(0, 10**9)


def test_run_ends_by_time_by_condition_and_without_events() -> None:
    world = World(1)
    ran: list[int] = []
    for at_ms in (1, 2, 30):
        world.agenda.after(at_ms * NS_PER_MS, partial(ran.append, at_ms))
    world.run(until=lambda: bool(ran))
    assert ran == [1]
    world.run(20 * NS_PER_MS)
    assert ran == [1, 2]
    assert world.now_ns >= 20 * NS_PER_MS
    world.run()
    assert ran == [1, 2, 30]


def test_a_world_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_module, "MAX_EVENTS", 1000)
    with pytest.raises(InvariantError, match="no end after 1000 events"):
        ping_pong(1).run()


def test_checkers_run_after_every_event() -> None:
    world = ping_pong(1)
    seen: list[int] = []

    def check() -> None:
        seen.append(world.agenda.events)
        if world.agenda.events == 10:
            raise InvariantError("planted")

    world.check_always(check)
    with pytest.raises(InvariantError, match="planted"):
        world.run(1000 * NS_PER_MS)
    assert seen == list(range(1, 11))


# ----------------------------------------------------------------------------------------------- lifecycle


def idle(node: Node) -> None:
    """A node without a program."""


def test_a_crash_ends_pending_actions_of_the_node() -> None:
    world = World(1)
    node = world.add_node(1, idle)
    ran: list[str] = []
    node.after(10 * NS_PER_MS, partial(ran.append, "after"))
    node.timers.set("timer", 10 * NS_PER_MS, partial(ran.append, "timer"))
    node.workers.submit(lambda: ran.append("work"), lambda result, error: ran.append("done"))
    node.crash(power_loss=False)
    node.start()
    world.run(20 * NS_PER_MS)
    assert ran == []


def test_boot_runs_at_every_start_from_the_state_of_the_disk() -> None:
    world = World(1)
    boots: list[list[str]] = []

    def boot(node: Node) -> None:
        boots.append(node.disk.names("/"))
        for name, synced in (("/kept", True), ("/lost", False)):
            file = node.disk.open(name, create=True)
            file.append([b"x"])
            if synced:
                file.sync()
                node.disk.sync_folder("/")

    node = world.add_node(1, boot)
    node.crash(power_loss=False)
    node.start()
    assert boots == [[], ["kept", "lost"]]
    lost = 0
    for seed in range(20):
        world = World(seed)
        node = world.add_node(1, boot)
        node.crash(power_loss=True)
        node.start()
        assert "kept" in boots[-1]
        lost += "lost" not in boots[-1]
    assert lost > 0


def test_a_power_loss_in_an_operation_takes_the_node_down() -> None:
    world = World(1)
    node = world.add_node(1, idle)
    node.disk.crash_after(2)
    after: list[str] = []

    def work() -> None:
        file = node.disk.open("/file", create=True)
        file.append([b"x"])
        after.append("must not be reached")

    node.after(0, work)
    world.run(NS_PER_MS)
    assert not node.is_up
    assert after == []
    node.start()
    assert node.is_up
    node.crash(power_loss=True)
    node.crash(power_loss=True)  # No error when called twice.
    assert not node.is_up


def test_a_power_loss_on_a_worker_or_in_boot_takes_the_node_down() -> None:
    world = World(1)

    def boot(node: Node) -> None:
        node.disk.make_folder(f"/life {node.life}")

    node = world.add_node(1, boot)
    node.disk.crash_after(1)
    node.workers.submit(lambda: node.disk.make_folder("/more"), lambda result, error: None)
    world.run(10 * NS_PER_MS)
    assert not node.is_up
    node.disk.crash_after(1)
    node.start()
    assert not node.is_up


def test_a_program_that_halts_leaves_the_machine_on() -> None:
    world = World(1)
    node = world.add_node(1, idle)
    node.halt(OSError(errno.EIO, "planted"))
    assert not node.is_up
    assert "planted" in world.trace.lines[-1]
    node.start()
    assert node.is_up


def test_a_program_halts_for_an_error_that_a_disk_fault_caused() -> None:
    node = World(1).add_node(1, idle)
    error = RuntimeError("the log directory goes offline")
    error.__cause__ = OSError(errno.EIO, "planted")
    node.halt(error)
    assert not node.is_up


@pytest.mark.parametrize("error", [InvariantError("two leaders"), TypeError("a bug"), RuntimeError("a bug")])
def test_a_program_that_fails_without_a_disk_fault_fails_the_seed(error: Exception) -> None:
    """An executor reports every exception of its core: one of a checker must not look like a crash."""
    world = World(1)
    node = world.add_node(1, idle)
    node.after(0, lambda: node.halt(error))
    with pytest.raises(type(error), match=str(error)):
        world.run(NS_PER_MS)


def test_messages_to_a_node_that_is_down_are_lost() -> None:
    world = World(1)
    for node_id in (1, 2):
        world.add_node(node_id, Ball)
    world.nodes[2].crash(power_loss=True)
    world.nodes[1].send(2, 0)
    world.nodes[1].send(3, 0)
    world.run()
    assert world.agenda.events == 2
    program = world.nodes[1].program
    assert isinstance(program, Ball)
    assert program.caught == 0


# ---------------------------------------------------------------------------------------------- interfaces


def test_work_and_its_result_are_separate_events() -> None:
    world = World(1)
    node = world.add_node(1, idle)
    seen: list[tuple[str, int]] = []
    node.workers.submit(
        lambda: seen.append(("work", world.now_ns)), lambda result, error: seen.append(("done", world.now_ns))
    )
    assert seen == []
    world.run()
    assert [what for what, _ in seen] == ["work", "done"]
    assert seen[0][1] < seen[1][1]


def test_errors_of_work_are_reported() -> None:
    world = World(1)
    node = world.add_node(1, idle)
    outcome: list[object] = []

    def fail() -> None:
        raise OSError(errno.EIO, "planted")

    node.workers.submit(fail, lambda result, error: outcome.append((result, str(error))))
    node.workers.submit(lambda: 7, lambda result, error: outcome.append((result, error)))
    world.run()
    assert sorted(outcome, key=str) == [(7, None), (None, "[Errno 5] planted")]


def test_a_slow_disk_stalls_the_node_that_waits_for_it() -> None:
    world = World(1)
    node = world.add_node(1, idle)
    node.disk.slow(50, kinds={Kind.MAKE_FOLDER})
    ran: list[int] = []
    node.after(0, lambda: node.disk.make_folder("/data"))
    node.after(10 * NS_PER_MS, lambda: ran.append(world.now_ns))
    world.run()
    assert ran[0] >= 50 * NS_PER_MS


def test_a_node_tells_how_long_it_is_stalled() -> None:
    world = World(1)
    node = world.add_node(1, idle)
    assert node.stalled_ns == 0
    node.pause(50 * NS_PER_MS)
    world.run(20 * NS_PER_MS)
    assert node.stalled_ns == 30 * NS_PER_MS
    world.run(40 * NS_PER_MS)
    assert node.stalled_ns == 0


def test_a_slow_disk_on_a_worker_delays_the_result_and_nothing_else() -> None:
    world = World(1)
    node = world.add_node(1, idle)
    node.disk.slow(50, kinds={Kind.MAKE_FOLDER})
    ran: dict[str, int] = {}

    def note(what: str) -> Callable[..., None]:
        return lambda *_: ran.update({what: world.now_ns})

    node.workers.submit(lambda: node.disk.make_folder("/data"), note("done"))
    node.after(10 * NS_PER_MS, note("loop"))
    world.run()
    assert ran["loop"] < 11 * NS_PER_MS
    assert ran["done"] >= 50 * NS_PER_MS


def test_timers_use_the_node_s_own_clock() -> None:
    world = World(1)
    fired: dict[int, int] = {}

    def note(node_id: int) -> None:
        fired[node_id] = world.now_ns

    for node_id, drift_ppm in ((1, 0), (2, 500_000), (3, -500_000)):
        node = world.add_node(node_id, idle)
        node.clock.set_drift(drift_ppm)
        node.timers.set("t", 30 * NS_PER_MS, partial(note, node_id))
    world.run()
    assert {node_id: at_ns // NS_PER_MS for node_id, at_ns in fired.items()} == {1: 30, 2: 20, 3: 60}


def test_a_slowed_clock_delays_its_timers() -> None:
    world = World(1)
    node = world.add_node(1, idle)
    fired: list[int] = []
    node.timers.set("t", 30 * NS_PER_MS, lambda: fired.append(node.clock.monotonic_ns()))
    node.timers.set("gone", 30 * NS_PER_MS, lambda: fired.append(-1))
    node.timers.cancel("gone")
    node.clock.set_drift(-500_000)
    world.run()
    assert len(fired) == 1
    assert fired[0] >= 30 * NS_PER_MS
    assert world.now_ns >= 60 * NS_PER_MS


def test_the_disk_s_times_are_the_node_s() -> None:
    world = World(1)
    node = world.add_node(1, idle)
    node.clock.jump(5_000_000)
    node.disk.open("/file", create=True)
    assert node.disk.modified_ms("/file") == node.clock.wall_ms()
