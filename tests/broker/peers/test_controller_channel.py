"""The controller channel: local or remote, waiting for a controller, and closed."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.broker.peers.controller_channel import ControllerChannel
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.network.network import Address
from barnabas.runtime.simulated.world import Node, World

REQUEST = CreateTopicsRequest(topics=[])
RESPONSE = CreateTopicsResponse(throttle_time_ms=0, topics=[])


class Peers:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[Address, int]] = []

    def send(self, address: Address, key: int, *_: object) -> None:
        self.sent.append((address, key))

    def close(self) -> None: ...


class Channel:
    """A channel whose local controller a test switches on and off."""

    def __init__(self) -> None:
        self.world = World(1)
        self.node: Node = self.world.add_node(1, lambda _: None)
        self.peers = Peers()
        self.is_active = False
        self.local: list[Promise[Message]] = []
        self.address: Address | None = None
        self.channel = ControllerChannel(
            self.peers,  # type: ignore[arg-type]
            lambda: self.address,
            self._ask,
            lambda: self.is_active,
            clock=self.node.clock,
            timers=self.node.timers,
            request_timeout_ms=1_000,
        )

    def _ask(self, message: Message, version: int, principal: str, client_id: str) -> Promise[Message] | None:
        if not self.is_active:
            return None
        self.local.append(Promise())
        return self.local[-1]

    def send(self, **options: Any) -> list[object]:
        heard: list[object] = []
        response = self.channel.send_request(REQUEST, 7, "User:ANONYMOUS", **options)
        response.then(heard.append, heard.append)
        return heard

    def run(self, duration_ms: int) -> None:
        self.world.run(duration_ms * NS_PER_MS)


@pytest.fixture
def channel() -> Channel:
    return Channel()


def _code(heard: list[object]) -> ErrorCode:
    (error,) = heard
    assert isinstance(error, KafkaError)
    return error.code


def test_a_request_waits_for_a_controller_until_its_deadline(channel: Channel) -> None:
    heard = channel.send()
    channel.run(900)
    assert heard == []
    channel.run(200)
    assert _code(heard) is ErrorCode.REQUEST_TIMED_OUT


def test_the_controller_of_this_node_decides_once_it_is_active(channel: Channel) -> None:
    heard = channel.send()
    channel.is_active = True
    channel.run(100)
    channel.local[0].set(RESPONSE)
    assert heard == [RESPONSE]


def test_a_request_that_only_is_forwarded_is_never_decided_here(channel: Channel) -> None:
    """It has not been authorized here."""
    heard = channel.send(is_forwarded=True)
    channel.is_active = True
    channel.run(100)
    assert channel.local == []
    assert _code(heard) is ErrorCode.NOT_CONTROLLER


def test_a_request_of_a_client_goes_in_an_envelope(channel: Channel) -> None:
    channel.address = Address("node2", 9093)
    channel.send(is_forwarded=True)
    assert channel.peers.sent == [(Address("node2", 9093), 58)]


def test_closing_fails_requests_that_wait_and_later_ones(channel: Channel) -> None:
    heard = channel.send()
    channel.channel.close()
    assert _code(heard) is ErrorCode.NOT_CONTROLLER
    assert _code(channel.send()) is ErrorCode.NOT_CONTROLLER
