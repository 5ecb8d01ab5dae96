"""Every kind of poller that this system has behaves alike."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

import pytest

from barnabas.runtime.loop.poller import KINDS, READ, WRITE, EpollPoller, Poller, make_poller

HERE = [kind for kind in KINDS if hasattr(select, kind)]


@pytest.fixture(params=HERE)
def poller(request: pytest.FixtureRequest) -> Iterator[Poller]:
    poller = make_poller(request.param)
    yield poller
    poller.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        one.setblocking(False)
        other.setblocking(False)
        yield one, other


def test_readiness_is_level_triggered(poller: Poller, pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = pair
    poller.register(one.fileno(), READ)
    assert poller.poll(0) == []
    other.send(b"ab")
    assert poller.poll(None) == [(one.fileno(), READ)]
    one.recv(1)
    assert poller.poll(0) == [(one.fileno(), READ)]
    one.recv(1)
    assert poller.poll(0) == []


def test_the_mask_can_be_changed(poller: Poller, pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = pair
    other.send(b"a")
    poller.register(one.fileno(), WRITE)
    assert poller.poll(0) == [(one.fileno(), WRITE)]
    poller.modify(one.fileno(), READ | WRITE)
    assert poller.poll(0) == [(one.fileno(), READ | WRITE)]
    poller.unregister(one.fileno())
    assert poller.poll(0) == []


def test_a_peer_that_is_gone_is_told_to_whoever_waits(
    poller: Poller, pair: tuple[socket.socket, socket.socket]
) -> None:
    one, other = pair
    poller.register(one.fileno(), READ)
    other.close()
    ((fd, mask),) = poller.poll(1_000_000_000)
    assert fd == one.fileno()
    assert mask & READ


def test_a_wait_ends(poller: Poller) -> None:
    assert poller.poll(300_000) == []


def test_the_best_kind_is_taken_and_a_fallback_can_be_forced() -> None:
    best, plain = make_poller(), make_poller("select")
    assert best.kind == HERE[0]
    assert isinstance(best, EpollPoller) == hasattr(select, "epoll")
    assert plain.kind == "select"
    best.close()
    plain.close()


def test_an_unknown_kind_is_refused_with_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"no poller 'io_uring'; it has: .*select"):
        make_poller("io_uring")
