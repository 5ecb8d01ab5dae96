"""Requests to other brokers go to their inter-broker listener."""

from __future__ import annotations

from typing import Any, cast

from barnabas.base.errors import ErrorCode
from barnabas.broker.peers.broker_channel import BrokerChannel, known_code
from barnabas.broker.peers.peers import Peers
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.runtime.network.network import Address
from tests.broker.worlds.data_world import register

API_VERSIONS = 18


class FakePeers:
    def __init__(self) -> None:
        self.sent: list[Address] = []
        self.kept: Any = None
        self.is_closed = False

    def send(self, address: Address, *_: object) -> None:
        self.sent.append(address)

    def keep_only(self, addresses: Any) -> None:
        self.kept = addresses

    def close(self) -> None:
        self.is_closed = True


def image_of(*changes: Any) -> Image:
    delta = Delta(EMPTY_IMAGE)
    for change in changes:
        delta.replay(change)
    return delta.image


def channel_of(peers: FakePeers, image: Image, listener: str = "PLAINTEXT") -> BrokerChannel:
    return BrokerChannel(cast("Peers", peers), lambda: image, listener)


def asked(channel: BrokerChannel, broker_id: int) -> list[Exception | None]:
    errors: list[Exception | None] = []
    channel.send(
        broker_id, API_VERSIONS, lambda _: ApiVersionsRequest(), lambda _, error: errors.append(error), 1_000
    )
    return errors


def test_a_request_goes_to_the_address_of_the_broker() -> None:
    peers = FakePeers()
    channel = channel_of(peers, image_of(register(2), register(3)))
    assert asked(channel, 3) == []
    assert peers.sent == [Address("host3", 9003)]


def test_brokers_that_are_not_alive_get_no_request() -> None:
    peers = FakePeers()
    image = image_of(register(2, fenced=True), register(3))
    channels = channel_of(peers, image), channel_of(peers, image), channel_of(peers, image, "INTERNAL")
    for channel, broker_id in zip(channels, (2, 9, 3), strict=True):
        (error,) = asked(channel, broker_id)
        assert f"broker {broker_id} is not alive" in str(error)
    assert peers.sent == []


def test_connections_to_dead_brokers_are_closed() -> None:
    peers = FakePeers()
    channel = channel_of(peers, image_of(register(2, fenced=True), register(3)))
    channel.disconnect_dead_brokers()
    assert Address("host3", 9003) in peers.kept
    assert Address("host2", 9002) not in peers.kept
    channel.close()
    assert peers.is_closed


def test_codes_of_a_later_release_are_unknown_errors() -> None:
    assert known_code(6) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert known_code(9_999) is ErrorCode.UNKNOWN_SERVER_ERROR
