"""A client of an ensemble of three whose servers are killed and paused: its session goes on with another."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from barnabas.runtime.clock import SystemClock
from barnabas.runtime.loop.reactor_thread import ReactorThread, wait_until
from barnabas.runtime.zookeeper.client import (
    SessionState,
    WatchEvent,
    WatchKind,
    ZooKeeperCode,
    ZooKeeperError,
)
from barnabas.runtime.zookeeper.kazoo_client import KazooZooKeeperClient
from barnabas.runtime.zookeeper.options import ZooKeeperOptions
from tests.ensemble import Ensemble, running_ensemble, why_no_zookeeper

PATIENCE_S = 90.0
SESSION_MS = 30_000

pytestmark = [
    pytest.mark.xdist_group("three zookeeper servers"),
    pytest.mark.skipif(why_no_zookeeper() is not None, reason=str(why_no_zookeeper())),
]


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with running_ensemble(tmp_path_factory.mktemp("ensemble"), 3) as ensemble:
        yield ensemble


@pytest.fixture
def thread() -> Iterator[ReactorThread]:
    thread = ReactorThread("three-servers")
    yield thread
    thread.end()


@pytest.fixture
def client(thread: ReactorThread, ensemble: Ensemble) -> Iterator[KazooZooKeeperClient]:
    client = a_client(thread, ensemble.new_connect())
    thread.finish(client.start, PATIENCE_S)
    yield client
    thread.finish(client.close, PATIENCE_S)


def a_client(
    thread: ReactorThread, connect: str, connection_timeout_ms: int = 90_000
) -> KazooZooKeeperClient:
    return KazooZooKeeperClient(
        ZooKeeperOptions(connect, SESSION_MS, connection_timeout_ms),
        post=thread.reactor.post,
        timers=thread.reactor.timers,
        clock=SystemClock(),
    )


def written(thread: ReactorThread, client: KazooZooKeeperClient, path: str) -> None:
    """Creates a znode, again if the answer was lost, as an owner does."""

    def attempt() -> bool:
        try:
            thread.finish(partial(client.create, path), PATIENCE_S)
        except ZooKeeperError as error:
            if error.code is ZooKeeperCode.NODE_EXISTS:
                return True
            assert error.code is ZooKeeperCode.CONNECTION_LOSS
            return False
        return True

    assert wait_until(attempt, PATIENCE_S)


def test_the_leader_is_killed(  # M-B1
    thread: ReactorThread, ensemble: Ensemble, client: KazooZooKeeperClient
) -> None:
    session = client.session_id
    states: list[SessionState] = []
    client.on_state(states.append)
    seen: list[WatchEvent] = []
    thread.finish(partial(client.create, "/mine", ephemeral=True), PATIENCE_S)
    thread.finish(partial(client.get, "/watched", seen.append), PATIENCE_S)
    leader = ensemble.leader()
    leader.kill()
    written(thread, client, "/after")
    assert client.session_id == session
    other = a_client(thread, f"{ensemble.connect}/test-{ensemble._paths}")
    thread.finish(other.start, PATIENCE_S)
    mine = thread.finish(partial(other.get, "/mine"), PATIENCE_S)
    assert mine is not None
    assert mine.stat.ephemeral_owner == session
    thread.finish(partial(other.create, "/watched"), PATIENCE_S)
    assert wait_until(lambda: seen == [(WatchKind.CREATED, "/watched")], PATIENCE_S)
    thread.finish(other.close, PATIENCE_S)
    # All lost their connections, for there was no leader; the session did not end.
    assert SessionState.EXPIRED not in states
    leader.start()
    leader.wait()


def test_without_a_majority_nobody_is_served_and_no_session_ends(
    thread: ReactorThread, ensemble: Ensemble, client: KazooZooKeeperClient
) -> None:
    session = client.session_id
    first, second = ensemble.servers[:2]
    for server in (first, second):
        server.kill()
    assert wait_until(lambda: client.state is SessionState.CONNECTING, PATIENCE_S)
    with pytest.raises(ZooKeeperError, match=r"has accepted a session within 300 ms"):
        thread.finish(a_client(thread, ensemble.connect, 300).start, PATIENCE_S)
    for server in (first, second):
        server.start()
    for server in (first, second):
        server.wait()
    written(thread, client, "/later")
    assert client.session_id == session
