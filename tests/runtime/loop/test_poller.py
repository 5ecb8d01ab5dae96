"""Every kind of poller on this system behaves the same."""

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
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        far.setblocking(False)
        yield near, far


def test_readiness_is_level_triggered(poller: Poller, pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    poller.register(near.fileno(), READ)
    assert poller.poll(0) == []
    far.send(b"ab")
    assert poller.poll(None) == [(near.fileno(), READ)]
    near.recv(1)
    assert poller.poll(0) == [(near.fileno(), READ)]
    near.recv(1)
    assert poller.poll(0) == []


def test_the_mask_can_be_changed(poller: Poller, pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    far.send(b"a")
    poller.register(near.fileno(), WRITE)
    assert poller.poll(0) == [(near.fileno(), WRITE)]
    poller.modify(near.fileno(), READ | WRITE)
    assert poller.poll(0) == [(near.fileno(), READ | WRITE)]
    poller.unregister(near.fileno())
    assert poller.poll(0) == []


def test_a_disconnected_peer_is_reported(poller: Poller, pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    poller.register(near.fileno(), READ)
    far.close()
    ((fd, mask),) = poller.poll(1_000_000_000)
    assert fd == near.fileno()
    assert mask & READ


def test_a_wait_ends(poller: Poller) -> None:
    assert poller.poll(300_000) == []


def test_the_best_kind_is_chosen_and_a_fallback_can_be_forced() -> None:
    best, plain = make_poller(), make_poller("select")
    assert best.kind == HERE[0]
    assert isinstance(best, EpollPoller) == hasattr(select, "epoll")
    assert plain.kind == "select"
    best.close()
    plain.close()


def test_an_unknown_kind_is_rejected_with_a_list_of_kinds() -> None:
    with pytest.raises(ValueError, match=r"no poller 'io_uring'; it has: .*select"):
        make_poller("io_uring")
