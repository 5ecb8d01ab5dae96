"""What a ZooKeeperClient promises, on a real Apache ZooKeeper, on the simulated one and on that of the test kit: the
same tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import pytest

from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.zookeeper.client import (
    OPEN_ACL,
    Acl,
    Check,
    Create,
    Created,
    Delete,
    Operation,
    SessionState,
    SetData,
    Stat,
    WatchEvent,
    WatchKind,
    Znode,
    ZooKeeperClient,
    ZooKeeperCode,
    ZooKeeperError,
)
from tests.runtime.zookeeper.drivers import SHORT_SESSION_MS, Driver, KitDriver, RealDriver, SimulatedDriver

T = TypeVar("T")

READ_ONLY = Acl(1, "world", "anyone")


SEEDS = 8


# Those whose connections break.
BREAKING = pytest.mark.parametrize("driver", ["real", *range(SEEDS)], indirect=True)


@pytest.fixture(params=["real", "kit", *range(SEEDS)])
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """A real server, that of the test kit, or an ensemble of three in a world of this seed."""
    if request.param == "real":
        real = RealDriver(request.getfixturevalue("zookeeper_connect"))
        yield real
        real.end()
    elif request.param == "kit":
        kit = KitDriver()
        yield kit
        kit.end()
    else:
        yield SimulatedDriver(request.param)


@pytest.fixture
def client(driver: Driver) -> ZooKeeperClient:
    client = driver.client()
    driver.run(client.start)
    return client


def refused(driver: Driver, begin: Callable[[], Promise[T]]) -> tuple[ZooKeeperCode, str]:
    with pytest.raises(ZooKeeperError) as raised:
        driver.run(begin)
    return raised.value.code, raised.value.path


def outcomes(promises: Sequence[Promise[Any]]) -> list[object]:
    """Records what the promises become, in the order in which they are settled."""
    settled: list[object] = []

    def failed(number: int, error: BaseException) -> None:
        assert isinstance(error, ZooKeeperError)
        settled.append((number, error.code))

    for number, promise in enumerate(promises):
        promise.then(partial(_settled, settled, number), partial(failed, number))
    return settled


def _settled(settled: list[object], number: int, _value: object) -> None:
    settled.append(number)


# Znodes -----------------------------------------------------------------------------------------------------


def test_a_znode_is_created_read_changed_and_deleted(driver: Driver, client: ZooKeeperClient) -> None:  # M-B2
    assert driver.run(lambda: client.create("/a", b"one")) == Created("/a")
    first = driver.run(lambda: client.get("/a"))
    assert first is not None
    assert first.data == b"one"
    assert (first.stat.version, first.stat.data_length, first.stat.ephemeral_owner) == (0, 3, 0)
    assert first.stat.czxid == first.stat.mzxid == first.stat.pzxid > 0
    changed = driver.run(lambda: client.set_data("/a", b"three"))
    assert (changed.version, changed.data_length, changed.czxid) == (1, 5, first.stat.czxid)
    assert changed.mzxid > changed.czxid
    assert driver.run(lambda: client.get("/a")) == (b"three", changed)
    driver.run(lambda: client.delete("/a"))
    assert driver.run(lambda: client.get("/a")) is None


def test_null_data_is_not_empty_data(driver: Driver, client: ZooKeeperClient) -> None:
    driver.run(lambda: client.create("/null"))
    driver.run(lambda: client.create("/empty", b""))
    driver.run(lambda: client.transact([Create("/null2", None), SetData("/empty", None)]))
    values = driver.run(lambda: client.get_many(["/null", "/empty", "/null2", "/none"]))
    assert [None if value is None else value.data for value in values] == [None, None, None, None]
    assert [value is None for value in values] == [False, False, False, True]
    driver.run(lambda: client.set_data("/null", b""))
    again = driver.run(lambda: client.get("/null"))
    assert again is not None
    assert again.data == b""


def test_what_cannot_be_done_fails_with_its_code_and_path(driver: Driver, client: ZooKeeperClient) -> None:
    driver.run(lambda: client.create("/a", b"1"))
    driver.run(lambda: client.create("/a/b", b"1"))
    driver.run(lambda: client.create("/e", ephemeral=True))
    codes = ZooKeeperCode
    assert refused(driver, lambda: client.create("/a")) == (codes.NODE_EXISTS, "/a")
    assert refused(driver, lambda: client.create("/x/y")) == (codes.NO_NODE, "/x/y")
    assert refused(driver, lambda: client.create("/e/y")) == (codes.NO_CHILDREN_FOR_EPHEMERALS, "/e/y")
    assert refused(driver, lambda: client.set_data("/x", b"")) == (codes.NO_NODE, "/x")
    assert refused(driver, lambda: client.set_data("/a", b"", 7)) == (codes.BAD_VERSION, "/a")
    assert refused(driver, lambda: client.delete("/x")) == (codes.NO_NODE, "/x")
    assert refused(driver, lambda: client.delete("/a/b", 7)) == (codes.BAD_VERSION, "/a/b")
    assert refused(driver, lambda: client.delete("/a")) == (codes.NOT_EMPTY, "/a")
    assert refused(driver, lambda: client.get_acl("/x")) == (codes.NO_NODE, "/x")
    too_long = b"x" * (1 << 20)
    assert refused(driver, lambda: client.set_data("/a", too_long)) == (codes.BAD_ARGUMENTS, "/a")


def test_children_are_sorted_names(driver: Driver, client: ZooKeeperClient) -> None:
    assert driver.run(lambda: client.children("/p")) is None
    driver.run(lambda: client.create("/p"))
    assert driver.run(lambda: client.children("/p")) == []
    for name in ("10", "9", "a"):
        driver.run(partial(client.create, f"/p/{name}"))
    assert driver.run(lambda: client.children("/p")) == ["10", "9", "a"]
    parent = driver.run(lambda: client.get("/p"))
    assert parent is not None
    assert (parent.stat.children_count, parent.stat.cversion, parent.stat.version) == (3, 3, 0)
    assert parent.stat.pzxid > parent.stat.mzxid


def test_sequential_znodes_are_numbered(driver: Driver, client: ZooKeeperClient) -> None:
    driver.run(lambda: client.create("/p"))
    first = driver.run(lambda: client.create("/p/n_", b"1", sequential=True))
    driver.run(lambda: client.delete(first.path))
    second = driver.run(lambda: client.create("/p/n_", b"1", sequential=True))
    assert [first.path, second.path] == ["/p/n_0000000000", "/p/n_0000000001"]
    [third] = driver.run(lambda: client.transact([Create("/p/m_", b"1", sequential=True)]))
    # Deleting counts as a change of the children, but not for numbers.
    assert third == Created("/p/m_0000000002")


def test_parents_are_made(driver: Driver, client: ZooKeeperClient) -> None:
    created = driver.run(lambda: client.create("/a/b/c", b"x", make_parents=True))
    assert created == Created("/a/b/c")
    driver.run(lambda: client.create("/a/b/d", make_parents=True))
    assert driver.run(lambda: client.children("/a/b")) == ["c", "d"]
    a = driver.run(lambda: client.get("/a"))
    assert a is not None
    assert a.data is None
    assert refused(driver, lambda: client.create("/a/b/c", make_parents=True)) == (
        ZooKeeperCode.NODE_EXISTS,
        "/a/b/c",
    )


def test_acls(driver: Driver, client: ZooKeeperClient) -> None:
    driver.run(lambda: client.create("/a", b"x"))
    assert driver.run(lambda: client.get_acl("/a")) == list(OPEN_ACL)
    stat = driver.run(lambda: client.set_acl("/a", [READ_ONLY], 0))
    assert stat.aversion == 1
    assert driver.run(lambda: client.get_acl("/a")) == [READ_ONLY]
    assert refused(driver, lambda: client.set_data("/a", b"y")) == (ZooKeeperCode.NO_AUTH, "/a")
    assert refused(driver, lambda: client.create("/a/b")) == (ZooKeeperCode.NO_AUTH, "/a/b")
    assert refused(driver, lambda: client.set_acl("/a", OPEN_ACL, 1)) == (ZooKeeperCode.NO_AUTH, "/a")
    driver.run(lambda: client.create("/b", b"x", acl=[Acl(31, "world", "anyone")]))
    assert refused(driver, lambda: client.set_acl("/b", OPEN_ACL, 1)) == (ZooKeeperCode.BAD_VERSION, "/b")
    driver.run(lambda: client.create("/secret", b"x", acl=[Acl(4, "world", "anyone")]))
    assert refused(driver, lambda: client.get("/secret")) == (ZooKeeperCode.NO_AUTH, "/secret")
    assert refused(driver, lambda: client.children("/secret")) == (ZooKeeperCode.NO_AUTH, "/secret")
    driver.run(lambda: client.delete("/a"))


# Transactions -----------------------------------------------------------------------------------------------


def test_a_transaction_is_carried_out_as_one(driver: Driver, client: ZooKeeperClient) -> None:
    driver.run(lambda: client.create("/guard", b""))
    results = driver.run(
        lambda: client.transact(
            [
                Check("/guard", 0),
                Create("/t", None),
                SetData("/t", b"x", 0),
                Create("/t/u"),
                Delete("/t/u", 0),
            ]
        )
    )
    assert results[:2] == [None, Created("/t")]
    assert isinstance(results[2], Stat)
    assert results[2].version == 1
    # All of it has one zxid: how a broker learns its epoch.
    assert results[2].czxid == results[2].mzxid
    assert results[3:] == [Created("/t/u"), None]
    assert driver.run(lambda: client.children("/t")) == []
    assert driver.run(lambda: client.transact([])) == []


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (Check("/guard", 5), (ZooKeeperCode.BAD_VERSION, "/guard")),
        (Check("/none", 0), (ZooKeeperCode.NO_NODE, "/none")),
        (SetData("/guard", b"", 5), (ZooKeeperCode.BAD_VERSION, "/guard")),
        (Delete("/none"), (ZooKeeperCode.NO_NODE, "/none")),
        (Create("/guard"), (ZooKeeperCode.NODE_EXISTS, "/guard")),
    ],
)
def test_a_transaction_that_fails_changes_nothing(
    driver: Driver,
    client: ZooKeeperClient,
    operation: Check | SetData | Delete | Create,
    expected: tuple[ZooKeeperCode, str],
) -> None:
    """It tells the code and the path of the first operation that cannot be carried out."""
    driver.run(lambda: client.create("/guard", b""))
    operations: list[Operation] = [
        Create("/before"),
        SetData("/guard", b"changed"),
        operation,
        Create("/no/parent"),
    ]
    if isinstance(operation, SetData):
        operations[1] = Create("/other")
    assert refused(driver, lambda: client.transact(operations)) == expected
    assert driver.run(lambda: client.get_many(["/before", "/other"])) == [None, None]
    guard = driver.run(lambda: client.get("/guard"))
    assert guard is not None
    assert (guard.data, guard.stat.version) == (b"", 0)


# Watches ----------------------------------------------------------------------------------------------------


def test_watches_are_called_once_with_what_happened(driver: Driver, client: ZooKeeperClient) -> None:  # M-B4
    other = driver.client()
    driver.run(other.start)
    seen: list[WatchEvent] = []
    driver.run(lambda: client.get("/a", seen.append))
    driver.run(lambda: other.create("/a", b"1"))
    driver.until(lambda: seen == [(WatchKind.CREATED, "/a")])
    driver.run(lambda: client.get("/a", seen.append))
    driver.run(lambda: other.set_data("/a", b"2"))
    driver.run(lambda: other.set_data("/a", b"3"))
    driver.until(lambda: seen[1:] == [(WatchKind.DATA_CHANGED, "/a")])
    driver.run(lambda: client.children("/a", seen.append))
    driver.run(lambda: other.create("/a/b"))
    driver.run(lambda: other.create("/a/c"))
    driver.until(lambda: seen[2:] == [(WatchKind.CHILDREN_CHANGED, "/a")])
    driver.run(lambda: other.delete("/a/b"))
    driver.run(lambda: other.delete("/a/c"))
    driver.run(lambda: client.get("/a", seen.append))
    driver.run(lambda: client.children("/a", seen.append))
    driver.run(lambda: other.delete("/a"))
    driver.until(lambda: seen[3:] == [(WatchKind.DELETED, "/a")] * 2)
    # A path without a znode has no children to watch.
    assert driver.run(lambda: client.children("/a", seen.append)) is None
    driver.run(lambda: other.create("/a"))
    driver.run(lambda: client.sync("/"))
    driver.run(lambda: client.get("/a"))
    assert len(seen) == 5


def test_a_watch_is_called_before_a_read_that_sees_the_change(
    driver: Driver, client: ZooKeeperClient
) -> None:
    other = driver.client()
    driver.run(other.start)
    driver.run(lambda: client.create("/a", b"0"))
    for round_ in range(20):
        seen: list[object] = []
        driver.run(partial(client.get, "/a", seen.append))

        new = str(round_ + 1).encode()
        driver.run(partial(race, client, other, new, seen))
        event = (WatchKind.DATA_CHANGED, "/a")
        if new in seen:
            assert event in seen
            assert seen.index(event) < seen.index(new)
        driver.until(partial(seen.__contains__, event))


def race(client: ZooKeeperClient, other: ZooKeeperClient, new: bytes, seen: list[object]) -> Promise[object]:
    """One client changes a znode while another reads it again and again; done with the last read."""
    other.set_data("/a", new)
    last: Promise[object] = Promise()

    def read(number: int, znode: Znode | None) -> None:
        seen.append(None if znode is None else znode.data)
        if number == 4:
            last.set(None)

    for number in range(5):
        client.get("/a").then(partial(read, number), last.fail)
    return last


def test_own_changes_call_watches_too(driver: Driver, client: ZooKeeperClient) -> None:
    seen: list[object] = []

    def begin() -> Promise[None]:
        client.get("/a", seen.append)
        client.create("/a", b"1").then(lambda created: seen.append(created.path), seen.append)
        return client.sync("/a")

    driver.run(begin)
    assert seen == [(WatchKind.CREATED, "/a"), "/a"]


# Order ------------------------------------------------------------------------------------------------------


def test_promises_are_settled_in_the_order_of_calls(driver: Driver, client: ZooKeeperClient) -> None:
    """Also with more calls than may be in flight, some of which fail."""
    promises: list[Promise[Any]] = []

    def begin() -> list[object]:
        for number in range(40):
            promises.append(client.create(f"/n{number % 30}"))
            promises.append(client.get(f"/n{number % 30}", lambda _: None))
        return outcomes(promises)

    settled = driver.call(begin)
    driver.until(lambda: len(settled) == 80)
    exists = ZooKeeperCode.NODE_EXISTS
    assert settled == [
        (number, exists) if number >= 60 and number % 2 == 0 else number for number in range(80)
    ]


def test_calls_that_wait_at_the_end_are_carried_out(driver: Driver, client: ZooKeeperClient) -> None:
    other = driver.client()
    driver.run(other.start)
    promises: list[Promise[Any]] = []

    def begin() -> Promise[None]:
        promises.extend(client.create(f"/n{number:02}") for number in range(50))
        return client.close()

    driver.run(begin)
    driver.run(lambda: other.sync("/"))
    children = driver.run(lambda: other.children("/"))
    assert children is not None
    assert [promise.done and promise.error is None for promise in promises] == [True] * 50
    assert [name for name in children if name.startswith("n")] == [f"n{number:02}" for number in range(50)]
    assert refused(driver, lambda: client.get("/n00"))[0] is ZooKeeperCode.SESSION_EXPIRED
    assert client.state is SessionState.CLOSED


# Sessions ---------------------------------------------------------------------------------------------------


def test_ephemeral_znodes_end_with_their_session(driver: Driver, client: ZooKeeperClient) -> None:  # M-B3
    holder = driver.client()
    driver.run(holder.start)
    driver.run(lambda: holder.create("/e", b"1", ephemeral=True))
    driver.run(lambda: holder.transact([Create("/f", None, ephemeral=True), SetData("/f", b"x", 0)]))
    driver.run(lambda: client.sync("/"))
    seen: list[WatchEvent] = []
    found = driver.run(lambda: client.get("/e", seen.append))
    assert found is not None
    assert found.stat.ephemeral_owner == holder.session_id != 0
    driver.run(holder.close)
    driver.until(lambda: seen == [(WatchKind.DELETED, "/e")])
    assert driver.run(lambda: client.get_many(["/e", "/f"])) == [None, None]


@BREAKING
def test_a_cut_connection_keeps_session_watches_and_ephemerals(
    driver: Driver, client: ZooKeeperClient
) -> None:
    other = driver.client()
    driver.run(other.start)
    states: list[SessionState] = []
    client.on_state(states.append)
    session = client.session_id
    driver.run(lambda: client.create("/mine", ephemeral=True))
    driver.run(lambda: client.create("/a", b"1"))
    driver.run(lambda: client.create("/b", b"1"))
    seen: list[WatchEvent] = []
    for path in ("/a", "/b", "/absent"):
        driver.run(partial(client.get, path, seen.append))
    driver.run(lambda: client.children("/a", seen.append))
    driver.run(lambda: client.children("/b", seen.append))
    driver.isolate(client)
    driver.until(lambda: client.state is SessionState.CONNECTING)
    # While it is away, these watches miss something; the others are called later.
    driver.run(lambda: other.set_data("/a", b"2"))
    driver.run(lambda: other.create("/b/c"))
    driver.run(lambda: other.create("/absent"))
    waiting = driver.call(lambda: client.get("/a"))
    driver.reconnect(client)
    driver.until(lambda: client.state is SessionState.CONNECTED)
    driver.until(lambda: waiting.done)
    assert waiting.value is not None
    assert waiting.value.data == b"2"
    assert sorted(seen, key=lambda event: event.path) == [
        (WatchKind.DATA_CHANGED, "/a"),
        (WatchKind.CREATED, "/absent"),
        (WatchKind.CHILDREN_CHANGED, "/b"),
    ]
    driver.run(lambda: other.delete("/b/c"))
    driver.run(lambda: other.create("/a/b"))
    driver.run(lambda: other.delete("/b"))
    driver.until(lambda: len(seen) == 5)
    assert set(seen[3:]) == {(WatchKind.CHILDREN_CHANGED, "/a"), (WatchKind.DELETED, "/b")}
    mine = driver.run(lambda: other.get("/mine"))
    assert mine is not None
    assert client.session_id == session
    assert states == [SessionState.CONNECTING, SessionState.CONNECTED]


@BREAKING
def test_a_lost_answer_is_told_as_a_lost_connection(driver: Driver, client: ZooKeeperClient) -> None:
    """The operation was carried out: only the owner can tell, by looking."""
    driver.run(lambda: client.get("/won"))
    driver.lose_next_answer(client)
    code, path = refused(driver, lambda: client.create("/won", b"me", ephemeral=True))
    assert (code, path) == (ZooKeeperCode.CONNECTION_LOSS, "/won")
    found = driver.run(lambda: client.get("/won"))
    assert found is not None
    assert found.stat.ephemeral_owner == client.session_id


@BREAKING
def test_calls_without_an_answer_fail_in_order_when_the_connection_is_lost(
    driver: Driver, client: ZooKeeperClient
) -> None:
    driver.run(lambda: client.create("/a", b"0"))
    driver.lose_next_answer(client)
    promises: list[Promise[Any]] = []

    def begin() -> list[object]:
        promises.extend(client.set_data("/a", str(number).encode()) for number in range(30))
        return outcomes(promises)

    settled = driver.call(begin)
    driver.until(lambda: len(settled) == 30)
    assert settled == [(number, ZooKeeperCode.CONNECTION_LOSS) for number in range(30)]
    # What was carried out of it is a beginning of it.
    driver.until(lambda: client.state is SessionState.CONNECTED)
    found = driver.run(lambda: client.get("/a"))
    assert found is not None
    assert found.stat.version == (
        0 if found.data == b"0" and found.stat.version == 0 else int(found.data or b"") + 1
    )


@BREAKING
def test_an_expired_session_is_told_and_the_next_one_is_separate(
    driver: Driver, client: ZooKeeperClient
) -> None:  # M-B3
    short = driver.client(SHORT_SESSION_MS)
    driver.run(short.start)
    assert short.session_timeout_ms == SHORT_SESSION_MS
    first_session = short.session_id
    states: list[SessionState] = []
    short.on_state(states.append)
    driver.run(lambda: short.create("/e", b"1", ephemeral=True))
    old: list[WatchEvent] = []
    driver.run(lambda: short.get("/watched", old.append))
    seen: list[WatchEvent] = []
    driver.run(lambda: client.sync("/"))
    driver.run(lambda: client.get("/e", seen.append))
    driver.isolate(short)
    driver.until(lambda: seen == [(WatchKind.DELETED, "/e")])
    driver.until(lambda: short.state is SessionState.CONNECTING)
    waiting = driver.call(lambda: short.get("/watched"))
    # Nobody knows of the end of a session before a server tells.
    assert not waiting.done
    driver.reconnect(short)
    driver.until(lambda: short.state is SessionState.EXPIRED)
    driver.until(lambda: waiting.done)
    assert isinstance(waiting.error, ZooKeeperError)
    assert waiting.error.code is ZooKeeperCode.SESSION_EXPIRED
    assert refused(driver, lambda: short.get("/e"))[0] is ZooKeeperCode.SESSION_EXPIRED
    driver.run(short.start)
    assert short.session_id not in (0, first_session)
    assert states == [
        SessionState.CONNECTING,
        SessionState.EXPIRED,
        SessionState.CONNECTING,
        SessionState.CONNECTED,
    ]
    new: list[WatchEvent] = []
    driver.run(lambda: short.get("/watched", new.append))
    driver.run(lambda: client.create("/watched"))
    driver.until(lambda: new == [(WatchKind.CREATED, "/watched")])
    assert old == []
    assert driver.run(lambda: short.get("/e")) is None
    driver.run(lambda: short.create("/e", ephemeral=True))


def test_a_client_that_reads_only_keeps_its_session(driver: Driver) -> None:
    """Pings are sent: a session lasts longer than its timeout."""
    idle, busy = driver.client(SHORT_SESSION_MS), driver.client(SHORT_SESSION_MS)
    driver.run(idle.start)
    driver.run(busy.start)
    driver.run(lambda: idle.create("/idle", ephemeral=True))
    # The session of a third client begins and ends after theirs.
    gone = driver.client(SHORT_SESSION_MS)
    driver.run(gone.start)
    driver.run(lambda: gone.create("/gone", ephemeral=True))
    driver.run(lambda: busy.sync("/"))
    seen: list[WatchEvent] = []
    driver.run(lambda: busy.get("/gone", seen.append))
    driver.isolate(gone)
    driver.until(lambda: bool(seen))
    driver.reconnect(gone)
    found = driver.run(lambda: busy.get("/idle"))
    assert found is not None
    assert idle.state is SessionState.CONNECTED
