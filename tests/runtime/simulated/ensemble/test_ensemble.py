"""Faults of the simulated ensemble, which a real one cannot be told to have.

What its clients see without them is held against Apache ZooKeeper in tests/runtime/zookeeper.
"""

from __future__ import annotations

from functools import partial

import pytest

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.zookeeper.client import SessionState, WatchEvent, WatchKind, ZooKeeperError
from tests.runtime.zookeeper.drivers import SHORT_SESSION_MS, SimulatedDriver

SEEDS = range(20)


def a_busy_run(seed: int) -> tuple[list[object], list[str]]:
    """Two clients under faults; returns what one of them saw, and the last lines of the world."""
    driver = SimulatedDriver(seed)
    writer, reader = driver.client(SHORT_SESSION_MS), driver.client()
    driver.run(writer.start)
    driver.run(reader.start)
    driver.run(lambda: reader.create("/a", b""))
    seen: list[object] = []

    def watch(_: object = None) -> None:
        reader.get("/a", watch).then(lambda znode: seen.append(znode and znode.stat.version), seen.append)

    driver.call(watch)
    for number in range(30):
        driver.call(partial(writer.set_data, "/a", str(number).encode()))
        if number % 7 == 3:
            driver.cut(writer)
        if number == 15:
            driver.ensemble.change_leader(200 * NS_PER_MS)
        driver.world.run(20 * NS_PER_MS)
    driver.world.run(5_000 * NS_PER_MS)
    return seen, driver.world.trace.lines


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_determines_everything(seed: int) -> None:
    first, again = a_busy_run(seed), a_busy_run(seed)
    assert repr(first) == repr(again)
    versions = [value for value in first[0] if isinstance(value, int)]
    # A client never sees an older state after a newer one, whichever server it asks.
    assert versions == sorted(versions)
    assert versions[-1] > 1


def test_seeds_differ() -> None:
    assert len({repr(a_busy_run(seed)) for seed in SEEDS}) > 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_server_lags_and_sync_catches_up(seed: int) -> None:
    driver = SimulatedDriver(seed)
    driver.ensemble.max_lag_ns = 500 * NS_PER_MS
    clients = [driver.client() for _ in range(3)]
    for client in clients:
        driver.run(client.start)
    driver.run(lambda: clients[0].create("/a", b"new"))
    for client in clients:
        driver.run(partial(client.sync, "/"))
        found = driver.run(partial(client.get, "/a"))
        assert found is not None


def test_some_reads_are_stale_without_sync() -> None:
    stale = 0
    for seed in SEEDS:
        driver = SimulatedDriver(seed)
        driver.ensemble.max_lag_ns = 500 * NS_PER_MS
        writer, reader = driver.client(), driver.client()
        driver.run(writer.start)
        driver.run(reader.start)
        driver.run(partial(writer.create, "/a"))
        stale += driver.run(partial(reader.get, "/a")) is None
    assert 0 < stale < len(SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_sessions_survive_a_leader_change(seed: int) -> None:
    driver = SimulatedDriver(seed)
    client, other = driver.client(SHORT_SESSION_MS), driver.client()
    driver.run(client.start)
    driver.run(other.start)
    driver.run(lambda: client.create("/e", ephemeral=True))
    before = driver.run(lambda: client.get("/e"))
    seen: list[WatchEvent] = []
    driver.run(lambda: client.get("/later", seen.append))
    # Longer than the session: without a leader it does not end.
    driver.ensemble.change_leader(3 * SHORT_SESSION_MS * NS_PER_MS)
    driver.until(lambda: client.state is SessionState.CONNECTING)
    driver.until(lambda: client.state is SessionState.CONNECTED)
    created = driver.run(lambda: other.create("/later"))
    assert created.path == "/later"
    driver.until(lambda: seen == [(WatchKind.CREATED, "/later")])
    after = driver.run(lambda: other.get("/later"))
    assert driver.run(lambda: client.get("/e")) == before
    assert before is not None
    assert after is not None
    # The epoch is in the upper half of every zxid.
    assert after.stat.czxid >> 32 == (before.stat.czxid >> 32) + 1


@pytest.mark.parametrize("seed", SEEDS)
def test_one_server_of_three_may_stop(seed: int) -> None:
    driver = SimulatedDriver(seed)
    clients = [driver.client() for _ in range(4)]
    for client in clients:
        driver.run(client.start)
    driver.ensemble.stop_server(1)
    driver.world.run(1_000 * NS_PER_MS)
    driver.until(lambda: all(client.state is SessionState.CONNECTED for client in clients))
    driver.run(lambda: clients[0].create("/a", b"1"))
    driver.ensemble.stop_server(2)
    driver.world.run(1_000 * NS_PER_MS)
    assert {client.state for client in clients} == {SessionState.CONNECTING}
    driver.ensemble.start_server(1)
    for client in clients:
        driver.until(partial(lambda client: client.state is SessionState.CONNECTED, client))
        found = driver.run(partial(client.get, "/a"))
        assert found is not None


@pytest.mark.parametrize("seed", SEEDS)
def test_the_session_of_a_crashed_node_ends_by_itself(seed: int) -> None:
    driver = SimulatedDriver(seed)
    crashing, other = driver.client(SHORT_SESSION_MS), driver.client()
    driver.run(crashing.start)
    driver.run(other.start)
    driver.run(lambda: crashing.create("/e", ephemeral=True))
    driver.run(lambda: other.sync("/"))
    seen: list[WatchEvent] = []
    driver.run(lambda: other.get("/e", seen.append))
    driver.node_of(crashing).crash(power_loss=False)
    began_ns = driver.world.now_ns
    driver.until(lambda: bool(seen))
    elapsed_ms = (driver.world.now_ns - began_ns) // NS_PER_MS
    assert SHORT_SESSION_MS // 2 <= elapsed_ms <= 2 * SHORT_SESSION_MS


@pytest.mark.parametrize("seed", SEEDS)
def test_a_paused_node_finds_its_session_expired(seed: int) -> None:
    driver = SimulatedDriver(seed)
    paused, other = driver.client(SHORT_SESSION_MS), driver.client()
    driver.run(paused.start)
    driver.run(other.start)
    driver.run(lambda: paused.create("/e", ephemeral=True))
    driver.node_of(paused).pause(3 * SHORT_SESSION_MS * NS_PER_MS)
    driver.world.run(2 * SHORT_SESSION_MS * NS_PER_MS)
    assert paused.state is SessionState.CONNECTED
    driver.run(lambda: other.sync("/"))
    assert driver.run(lambda: other.get("/e")) is None
    driver.until(lambda: paused.state is SessionState.EXPIRED)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_any_server_start_fails_in_time(seed: int) -> None:
    driver = SimulatedDriver(seed)
    for number in (1, 2, 3):
        driver.ensemble.stop_server(number)
    client = driver.client(SHORT_SESSION_MS)
    with pytest.raises(ZooKeeperError, match=r"no server of ZooKeeper at zookeeper/chroot .* within 1000 ms"):
        driver.run(client.start)
    assert client.state is SessionState.CLOSED
    driver.ensemble.start_server(1)
    driver.ensemble.start_server(2)
    driver.run(client.start)
