"""Byte streams between simulated nodes: the same connections as in production, under every fault."""

from __future__ import annotations

import errno
import inspect
from typing import Any

import pytest

from barnabas.runtime.network.network import Address, CloseReason, Network, NetworkLimits, StreamHandler
from barnabas.runtime.network.tcp import TcpNetwork
from barnabas.runtime.simulated.links import LinkFaults
from barnabas.runtime.simulated.network import SimulatedNetwork, host_name
from barnabas.runtime.simulated.streams import WINDOW_BYTES
from barnabas.runtime.simulated.world import Node, World

SECOND_NS = 1_000_000_000


class Upper(StreamHandler):
    """Responds in capitals."""

    def __init__(self) -> None:
        self.ended: CloseReason | None = None

    def connected(self, connection: Any) -> None:
        self.connection = connection

    def data_received(self, view: memoryview) -> int:
        self.connection.send(bytes(view).upper())
        return len(view)

    def closed(self, reason: CloseReason, error: BaseException | None) -> None:
        self.ended = reason


class Collect(StreamHandler):
    def __init__(self) -> None:
        self.received = bytearray()
        self.connection: Any = None
        self.ended: tuple[CloseReason, BaseException | None] | None = None

    def connected(self, connection: Any) -> None:
        self.connection = connection

    def data_received(self, view: memoryview) -> int:
        self.received += view
        return len(view)

    def closed(self, reason: CloseReason, error: BaseException | None) -> None:
        self.ended = (reason, error)


class Two:
    """A world with a server on node 1 and a client on node 2."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.served: list[Upper] = []
        self.server = self.world.add_node(1, self._boot_server)
        self.client = self.world.add_node(2, lambda node: None)

    def _boot_server(self, node: Node) -> None:
        node.network.listen("", 9092, self._on_connection)

    def _on_connection(self, peer: Address) -> StreamHandler:
        self.served.append(Upper())
        return self.served[-1]

    def connect(self, port: int = 9092, host: str = host_name(1)) -> Collect:
        handler = Collect()
        self.client.network.connect(host, port, handler)
        return handler

    def connected(self) -> Collect:
        handler = self.connect()
        self.world.run(SECOND_NS, until=lambda: handler.connection is not None)
        return handler


@pytest.mark.parametrize("seed", range(10))
def test_bytes_arrive_complete_and_in_order_whatever_the_network(seed: int) -> None:
    two = Two(seed)
    two.world.links.faults = LinkFaults.draw(two.world.random)
    data = two.world.random.bytes(300_000).replace(b"\0", b"a").lower()
    handler = two.connect()
    two.world.run(20 * SECOND_NS, until=lambda: handler.connection is not None)
    handler.connection.send(data)
    two.world.run(600 * SECOND_NS, until=lambda: len(handler.received) == len(data))
    assert handler.received == data.upper()
    assert handler.connection.peer == Address("node1", 9092)


def test_a_paused_listener_keeps_new_connections_waiting() -> None:
    two = Two()
    listener = two.server.network.internet.listeners[Address("node1", 9092)]
    listener.pause_accepting()
    handler = two.connect()
    two.world.run(SECOND_NS)
    assert handler.connection is None
    listener.resume_accepting()
    two.world.run(2 * SECOND_NS, until=lambda: handler.connection is not None)
    assert handler.connection is not None


def test_a_window_limits_the_bytes_in_flight() -> None:
    two = Two()
    handler = two.connected()
    two.world.links.block(2, 1)
    handler.connection.send(bytes(10 * WINDOW_BYTES))
    two.world.run(SECOND_NS)
    assert handler.connection.queued_bytes == 9 * WINDOW_BYTES


def test_a_blocked_link_delays_and_does_not_lose() -> None:
    two = Two()
    handler = two.connected()
    two.world.links.block(1, 2)
    handler.connection.send(b"hello")
    two.world.run(3 * SECOND_NS)
    assert handler.received == b""
    two.world.links.heal()
    two.world.run(SECOND_NS)
    assert handler.received == b"HELLO"


def test_a_link_that_stays_blocked_breaks_the_stream_eventually() -> None:
    two = Two()
    handler = two.connected()
    two.world.links.block(2, 1)
    handler.connection.send(b"hello")
    two.world.run(60 * SECOND_NS)
    assert handler.ended is not None
    assert handler.ended[0] is CloseReason.RESET


def test_a_cut_is_reported_to_both_ends() -> None:
    two = Two()
    handler = two.connected()
    two.world.streams.cut(1, 2)
    two.world.run(SECOND_NS)
    assert handler.ended is not None
    assert handler.ended[0] is CloseReason.RESET
    assert two.served[0].ended is CloseReason.RESET


def test_closing_delivers_bytes_in_flight_and_then_the_end() -> None:
    two = Two()
    handler = two.connected()
    handler.connection.send(b"bye")
    handler.connection.close_when_sent()
    two.world.run(SECOND_NS)
    assert handler.ended == (CloseReason.LOCAL, None)
    assert two.served[0].ended is CloseReason.PEER


def test_a_killed_process_is_noticed_at_once_and_a_machine_without_power_when_it_restarts() -> None:
    for power_loss in (False, True):
        two = Two()
        handler = two.connected()
        two.server.crash(power_loss=power_loss)
        handler.connection.send(b"anybody?")
        two.world.run(2 * SECOND_NS)
        assert (handler.ended is not None) == (not power_loss)
        two.server.start()
        two.world.run(2 * SECOND_NS)
        assert handler.ended is not None
        assert handler.ended[0] is CloseReason.RESET


def test_handlers_of_a_crashed_node_are_not_called() -> None:
    two = Two()
    handler = two.connected()
    two.client.crash(power_loss=False)
    two.world.run(SECOND_NS)
    assert handler.ended is None
    assert two.served[0].ended is CloseReason.RESET


@pytest.mark.parametrize(
    ("host", "port", "code"),
    [("node1", 1, errno.ECONNREFUSED), ("nowhere", 9092, errno.EHOSTUNREACH)],
)
def test_a_connect_without_a_listener_is_refused(host: str, port: int, code: int) -> None:
    two = Two()
    handler = two.connect(port, host)
    two.world.run(SECOND_NS)
    assert handler.ended is not None
    reason, error = handler.ended
    assert reason is CloseReason.CONNECT_FAILED
    assert isinstance(error, OSError)
    assert error.errno == code


def test_a_connect_to_a_machine_that_is_off_waits_for_it_or_times_out() -> None:
    two = Two()
    two.server.crash(power_loss=True)
    lucky = two.connect()
    two.world.run(2 * SECOND_NS)
    assert lucky.ended is None
    two.server.start()
    two.world.run(2 * SECOND_NS)
    assert lucky.connection is not None
    two.server.crash(power_loss=True)
    unlucky = two.connect()
    two.world.run((NetworkLimits().connect_timeout_ms + 1) * 1_000_000)
    assert unlucky.ended == (CloseReason.CONNECT_TIMED_OUT, None)


def test_a_rejected_peer_is_closed_at_once() -> None:
    world = World(1)
    server = world.add_node(1, lambda node: None)
    server.network.listen("node1", 9092, lambda peer: None)
    client = world.add_node(2, lambda node: None)
    handler = Collect()
    client.network.connect("node1", 9092, handler)
    world.run(SECOND_NS)
    assert handler.ended == (CloseReason.PEER, None)


def test_ports_are_allocated_and_released() -> None:
    two = Two()
    with pytest.raises(OSError, match=r"(?i)in use"):
        two.server.network.listen("", 9092, lambda peer: None)
    with pytest.raises(OSError, match=r"(?i)assign"):
        two.server.network.listen("node2", 9093, lambda peer: None)
    other = two.server.network.listen("", 0, lambda peer: None)
    assert other.address.port >= 49_152
    two.server.network.close()
    two.server.network.listen("", 9092, lambda peer: None)


def test_closing_a_network_closes_its_connections() -> None:
    two = Two()
    handler = two.connected()
    two.client.network.close()
    two.world.run(SECOND_NS)
    assert handler.ended == (CloseReason.LOCAL, None)
    assert two.served[0].ended is CloseReason.PEER


@pytest.mark.parametrize("twin", [TcpNetwork, SimulatedNetwork])
def test_real_and_simulated_network_have_the_same_interface(twin: type) -> None:
    for name, method in inspect.getmembers(Network, inspect.isfunction):
        if not name.startswith("_"):
            ours = inspect.signature(getattr(twin, name))
            assert list(ours.parameters) == list(inspect.signature(method).parameters)
