"""Connections to nodes that are no longer needed."""

from __future__ import annotations

from barnabas.broker.peers.peers import Peers
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.loop.timers import Timers
from barnabas.runtime.network.network import Address, StreamHandler
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.tls.context import Tls

OLD, NEW = Address("old", 1), Address("new", 1)


class SilentNetwork:
    """No connection is ever established."""

    def connect(self, host: str, port: int, handler: StreamHandler, tls: Tls | None = None) -> None: ...


def test_requests_to_other_nodes_fail_at_once() -> None:
    """A former controller that is paused would keep its requests until their deadline."""
    peers = Peers(
        "1-controller",
        network=SilentNetwork(),
        clock=SystemClock(),
        timers=Timers(),
        random=SeededRandom(1),
    )
    failed: list[Address] = []

    def send(address: Address) -> None:
        peers.send(address, 18, lambda _: ApiVersionsRequest(), lambda *_: failed.append(address), 60_000)

    send(OLD)
    send(NEW)
    peers.keep_only({NEW})
    assert failed == [OLD]
    peers.keep_only(())
    assert failed == [OLD, NEW]
