"""Requests of this broker to other brokers, by broker id, on the inter-broker listener."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.base.errors import ErrorCode
from barnabas.broker.metadata.cluster_view import leader_endpoint
from barnabas.broker.peers.peer_connection import Done, MakeRequest, PeerError
from barnabas.broker.peers.peers import Peers
from barnabas.metadata.image import Image
from barnabas.runtime.network.network import Address


class BrokerChannel:
    """The connections of one purpose to all brokers.  Runs on the event loop's thread."""

    def __init__(self, peers: Peers, image: Callable[[], Image], listener: str) -> None:
        self._peers = peers
        self._image = image
        self._listener = listener

    def address_of(self, broker_id: int) -> Address | None:
        """Returns the address of a live broker; None if it is fenced, unknown, or has no such listener."""
        image = self._image()
        broker = image.brokers.get(broker_id)
        endpoint = leader_endpoint(image, broker_id, self._listener)
        if broker is None or broker.fenced or endpoint is None:
            return None
        return Address(endpoint.host, endpoint.port)

    def send(self, broker_id: int, key: int, make: MakeRequest, done: Done, timeout_ms: int) -> None:
        """Sends a request; `done` is called once, with the response or with the error that prevented it."""
        address = self.address_of(broker_id)
        if address is None:
            done(None, PeerError(f"broker {broker_id} is not alive"))
        else:
            self._peers.send(address, key, make, done, timeout_ms)

    def disconnect_dead_brokers(self) -> None:
        """Closes connections to brokers that are not alive any more; requests in flight fail."""
        addresses = {self.address_of(broker_id) for broker_id in self._image().brokers}
        self._peers.keep_only(addresses)

    def close(self) -> None:
        self._peers.close()


def known_code(code: int) -> ErrorCode:
    """Returns the error code of another broker's response; a later release may have others."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
