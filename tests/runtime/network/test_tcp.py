"""The real network on loopback: IPv4, IPv6, names, limits, slices, several brokers on one reactor."""

from __future__ import annotations

import errno
import gc
import hashlib
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from barnabas.runtime.disk.disk import BytesSlice
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.loop.poller import make_poller
from barnabas.runtime.loop.reactor import Reactor
from barnabas.runtime.loop.workers import LoopWorkers, ThreadWorkers
from barnabas.runtime.network import tcp
from barnabas.runtime.network.network import Address, CloseReason, NetworkLimits, StreamHandler
from barnabas.runtime.network.tcp import TcpNetwork


class Collect(StreamHandler):
    """Keeps everything it receives; `answer` computes the reply."""

    def __init__(self, answer: Callable[[bytes], bytes] | None = None) -> None:
        self.received = bytearray()
        self.connection: Any = None
        self.ended: tuple[CloseReason, BaseException | None] | None = None
        self._answer = answer

    def connected(self, connection: Any) -> None:
        self.connection = connection

    def data_received(self, view: memoryview) -> int:
        self.received += view
        if self._answer is not None:
            self.connection.send(self._answer(bytes(view)))
        return len(view)

    def closed(self, reason: CloseReason, error: BaseException | None) -> None:
        self.ended = (reason, error)


@pytest.fixture(params=[None, "select"])
def reactor(request: pytest.FixtureRequest) -> Iterator[Reactor]:
    reactor = Reactor(poller=make_poller(request.param))
    yield reactor
    reactor.close()


@pytest.fixture
def network(reactor: Reactor) -> Iterator[TcpNetwork]:
    network = TcpNetwork(reactor)
    yield network
    network.close()
    reactor.serve(0)
    assert network.connection_count == 0


# Long enough for a busy machine; only a failing test waits for it.
PATIENCE_S = 120


def serve_until(reactor: Reactor, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        reactor.serve(1_000_000)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", ""])
def test_bytes_are_exchanged(network: TcpNetwork, host: str) -> None:
    served: list[Collect] = []

    def on_connection(peer: Address) -> StreamHandler:
        assert peer.host in ("127.0.0.1", "::1")
        served.append(Collect(bytes.upper))
        return served[-1]

    try:
        listener = network.listen(host, 0, on_connection)
    except OSError as error:
        if host == "::1" and error.errno == errno.EADDRNOTAVAIL:
            pytest.skip("this machine has no IPv6")
        raise
    client = Collect()
    network.connect(host or "localhost", listener.address.port, client)
    serve_until(network.reactor, lambda: client.connection is not None)
    client.connection.send(b"hello ", b"world")
    serve_until(network.reactor, lambda: client.received == b"HELLO WORLD")
    assert served[0].connection.local == client.connection.peer
    client.connection.close()
    serve_until(network.reactor, lambda: bool(served[0].ended))
    assert client.ended == (CloseReason.LOCAL, None)
    assert served[0].ended == (CloseReason.PEER, None)


def test_a_listener_on_all_addresses_accepts_both_families(network: TcpNetwork) -> None:
    listener = network.listen("", 0, lambda peer: Collect(bytes.upper))
    hosts = ["127.0.0.1"] + (["::1"] if socket.has_dualstack_ipv6() else [])
    for host in hosts:
        client = Collect()
        network.connect(host, listener.address.port, client)
        serve_until(network.reactor, lambda: client.connection is not None)  # noqa: B023
        client.connection.send(b"x")
        serve_until(network.reactor, lambda: client.received == b"X")  # noqa: B023


def test_large_amounts_pass_unchanged_in_both_directions(network: TcpNetwork) -> None:
    data = bytes(range(256)) * 40_000
    server = Collect(lambda received: received)
    listener = network.listen("127.0.0.1", 0, lambda peer: server)
    client = Collect()
    network.connect("127.0.0.1", listener.address.port, client)
    serve_until(network.reactor, lambda: client.connection is not None)
    client.connection.send(data)
    serve_until(network.reactor, lambda: len(client.received) == len(data))
    assert hashlib.sha256(client.received).digest() == hashlib.sha256(data).digest()


@pytest.mark.parametrize("with_workers", [True, False])
def test_slices_of_files_are_sent_between_buffers(
    network: TcpNetwork, reactor: Reactor, tmp_path: Path, with_workers: bool
) -> None:  # M-E2
    disk = FolderDisk()
    file = disk.open(f"{tmp_path}/segment", create=True)
    content = bytes(range(256)) * 12_000
    file.append([content])
    threads = ThreadWorkers()
    served = TcpNetwork(reactor, workers=LoopWorkers(threads, reactor.post) if with_workers else None)

    class Serve(StreamHandler):
        def connected(self, connection: Any) -> None:
            connection.send(b"head", file.slice(100, 2_000_000), b"tail", file.slice(0, 5))

        def data_received(self, view: memoryview) -> int:
            return len(view)

    listener = served.listen("127.0.0.1", 0, lambda peer: Serve())
    client = Collect()
    network.connect("127.0.0.1", listener.address.port, client)
    expected = b"head" + content[100:2_000_100] + b"tail" + content[:5]
    serve_until(reactor, lambda: len(client.received) == len(expected))
    assert client.received == expected
    served.close()
    file.close()
    threads.close()


def test_a_cold_slice_is_read_on_a_worker_first(network: TcpNetwork, reactor: Reactor) -> None:  # M-A9
    threads = ThreadWorkers()
    read_by: list[str] = []

    class Cold(BytesSlice):
        def is_resident(self) -> bool:
            return False

        def bring_in(self) -> None:
            read_by.append(threading.current_thread().name)

    class Serve(StreamHandler):
        def connected(self, connection: Any) -> None:
            connection.send(b"<", Cold(b"cold"), b">")

    served = TcpNetwork(reactor, workers=LoopWorkers(threads, reactor.post))
    listener = served.listen("127.0.0.1", 0, lambda peer: Serve())
    client = Collect()
    network.connect("127.0.0.1", listener.address.port, client)
    serve_until(reactor, lambda: client.received == b"<cold>")
    assert len(read_by) == 1
    assert read_by[0] != threading.current_thread().name
    served.close()
    threads.close()


def test_the_addresses_of_a_name_are_tried_in_turn(
    network: TcpNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = network.listen("127.0.0.1", 0, lambda peer: Collect())
    removed = network.listen("127.0.0.1", 0, lambda peer: None)
    removed.close()
    addresses = [(99, None), (socket.AF_INET, removed.address), (socket.AF_INET, listener.address)]
    monkeypatch.setattr(tcp, "_resolve", lambda host, port: addresses)
    client = Collect()
    network.connect("somewhere", 9, client)
    serve_until(network.reactor, lambda: client.connection is not None)
    assert client.connection.peer == listener.address


def test_an_unknown_name_is_reported(network: TcpNetwork) -> None:
    client = Collect()
    network.connect("no-such-host.invalid", 9, client)
    serve_until(network.reactor, lambda: client.ended is not None)
    assert client.ended is not None
    assert client.ended[0] is CloseReason.CONNECT_FAILED


def test_an_error_in_accepting_leaks_nothing_and_affects_no_other(network: TcpNetwork) -> None:
    faults: list[Exception] = []
    network.reactor.on_error = faults.append

    def on_connection(peer: Address) -> StreamHandler:
        if not faults:
            raise ValueError("planted")
        return Collect(bytes.upper)

    listener = network.listen("127.0.0.1", 0, on_connection)
    first, second = Collect(), Collect()
    network.connect("127.0.0.1", listener.address.port, first)
    serve_until(network.reactor, lambda: first.ended is not None)
    network.connect("127.0.0.1", listener.address.port, second)
    serve_until(network.reactor, lambda: second.connection is not None)
    assert [str(fault) for fault in faults] == ["planted"]


def test_names_are_resolved_on_a_worker(network: TcpNetwork, reactor: Reactor) -> None:
    threads = ThreadWorkers()
    other = TcpNetwork(reactor, workers=LoopWorkers(threads, reactor.post))
    listener = network.listen("127.0.0.1", 0, lambda peer: Collect())
    client, lost = Collect(), Collect()
    other.connect("localhost", listener.address.port, client)
    other.connect("no-such-host.invalid", listener.address.port, lost)
    assert client.connection is None
    serve_until(reactor, lambda: client.connection is not None and lost.ended is not None)
    assert lost.ended is not None
    assert lost.ended[0] is CloseReason.CONNECT_FAILED
    assert isinstance(lost.ended[1], socket.gaierror)
    other.close()
    threads.close()


def test_a_refused_connection_is_reported(network: TcpNetwork) -> None:
    listener = network.listen("127.0.0.1", 0, lambda peer: None)
    port = listener.address.port
    listener.close()
    listener.close()
    client = Collect()
    network.connect("127.0.0.1", port, client)
    serve_until(network.reactor, lambda: client.ended is not None)
    assert client.ended is not None
    assert client.ended[0] is CloseReason.CONNECT_FAILED
    assert isinstance(client.ended[1], ConnectionRefusedError)


def test_a_connect_without_a_response_times_out(reactor: Reactor, monkeypatch: pytest.MonkeyPatch) -> None:
    network = TcpNetwork(reactor, limits=NetworkLimits(connect_timeout_ms=5))
    monkeypatch.setattr(socket.socket, "connect_ex", lambda self, address: errno.EINPROGRESS)
    monkeypatch.setattr(Reactor, "want", lambda self, watch, mask: None)
    client = Collect()
    network.connect("127.0.0.1", 9, client)
    serve_until(reactor, lambda: client.ended is not None)
    assert client.ended == (CloseReason.CONNECT_TIMED_OUT, None)


def test_a_rejected_peer_is_closed_at_once(network: TcpNetwork) -> None:
    listener = network.listen("127.0.0.1", 0, lambda peer: None)
    client = Collect()
    network.connect("127.0.0.1", listener.address.port, client)
    serve_until(network.reactor, lambda: client.ended is not None)
    assert client.ended is not None
    assert client.ended[0] in (CloseReason.PEER, CloseReason.RESET)
    assert network.connection_count == 0


def test_a_port_in_use_is_an_error_that_names_it(network: TcpNetwork) -> None:
    listener = network.listen("127.0.0.1", 0, lambda peer: None)
    with pytest.raises(OSError) as caught:
        network.listen("127.0.0.1", listener.address.port, lambda peer: None)
    assert caught.value.errno == errno.EADDRINUSE


def test_a_reset_by_the_peer_is_reported(network: TcpNetwork) -> None:
    server = Collect()
    listener = network.listen("127.0.0.1", 0, lambda peer: server)
    with socket.create_connection(listener.address) as client:
        serve_until(network.reactor, lambda: server.connection is not None)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    serve_until(network.reactor, lambda: server.ended is not None)
    assert server.ended is not None
    assert server.ended[0] is CloseReason.RESET


def test_a_peer_that_never_reads_blocks_only_itself(network: TcpNetwork) -> None:
    """Its connection is choked; another client is served meanwhile."""
    stuck = Collect()
    handlers: list[StreamHandler] = [stuck, Collect(bytes.upper)]
    listener = network.listen("127.0.0.1", 0, lambda peer: handlers.pop(0))
    with socket.create_connection(listener.address):
        serve_until(network.reactor, lambda: stuck.connection is not None)
        for _ in range(64):
            stuck.connection.send(bytes(1 << 20))
        serve_until(network.reactor, lambda: not stuck.connection.reading)
        client = Collect()
        network.connect("127.0.0.1", listener.address.port, client)
        serve_until(network.reactor, lambda: client.connection is not None)
        client.connection.send(b"alive?")
        serve_until(network.reactor, lambda: client.received == b"ALIVE?")
        assert stuck.connection.queued_bytes > 0


def test_a_paused_listener_keeps_new_connections_waiting(network: TcpNetwork) -> None:
    server = Collect(bytes.upper)
    listener = network.listen("127.0.0.1", 0, lambda peer: server)
    listener.pause_accepting()
    with socket.create_connection(listener.address) as client:
        client.sendall(b"hello")
        for _ in range(5):
            network.reactor.serve(1_000_000)
        assert server.connection is None
        listener.resume_accepting()
        serve_until(network.reactor, lambda: server.received == b"hello")
    listener.close()
    # A closed listener cannot be resumed.
    listener.resume_accepting()


def test_without_a_free_descriptor_accepting_waits_instead_of_spinning(
    network: TcpNetwork, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tcp, "ACCEPT_RETRY_MS", 1)
    server = Collect(bytes.upper)
    listener: Any = network.listen("127.0.0.1", 0, lambda peer: server)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.create_connection(listener.address) as client:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, hard))
            serve_until(network.reactor, lambda: listener.out_of_descriptors > 1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert server.connection is None
        assert (
            caplog.text.count("too many open files, new connections are not accepted; raise the limit") == 1
        )
        client.sendall(b"now")
        serve_until(network.reactor, lambda: server.received == b"now")


def lowest_of_a_row(taken: ExitStack) -> int:
    """The lowest free descriptor, after which 30 more are free: gaps between others are filled."""
    row: list[socket.socket] = []
    while len(row) <= 30:
        opened = socket.socket()
        if row and opened.fileno() != row[-1].fileno() + 1:
            for each in row:
                taken.enter_context(each)
            row.clear()
        row.append(opened)
    for each in row:
        each.close()
    with socket.socket() as lowest:
        return lowest.fileno()


def test_the_last_descriptors_are_not_for_connections(
    reactor: Reactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as taken:
        monkeypatch.setattr(tcp, "ACCEPT_RETRY_MS", 1)
        limits = NetworkLimits(connections_below=lowest_of_a_row(taken) + 10)
        _fill_and_empty(TcpNetwork(reactor, limits=limits), reactor)


def _fill_and_empty(network: TcpNetwork, reactor: Reactor) -> None:
    handlers: list[Collect] = []

    def accept(peer: Address) -> Collect:
        handlers.append(Collect(bytes.upper))
        return handlers[-1]

    listener: Any = network.listen("127.0.0.1", 0, accept)
    with ExitStack() as clients:
        came: list[socket.socket] = []
        while len(came) < 10 and not listener.out_of_descriptors:
            came.append(clients.enter_context(socket.create_connection(listener.address)))
            serve_until(reactor, lambda: len(handlers) == len(came) or listener.out_of_descriptors > 0)
        assert 0 < len(handlers) < 10
        assert network.connection_count == len(handlers)
    # When a connection is closed, another one is accepted.
    serve_until(reactor, lambda: network.connection_count == 0)
    let_in = len(handlers)
    with socket.create_connection(listener.address) as client:
        client.sendall(b"now")
        serve_until(reactor, lambda: len(handlers) > let_in and handlers[-1].received == b"now")
    network.close()


def test_accepted_sockets_have_the_configured_buffers(reactor: Reactor) -> None:
    def sizes(limits: NetworkLimits) -> list[int]:
        network = TcpNetwork(reactor, limits=limits)
        try:
            listener: Any = network.listen("127.0.0.1", 0, lambda peer: None)
            with socket.create_connection(listener.address), listener._socket.dup() as listening:
                listening.settimeout(120)
                with listening.accept()[0] as accepted:
                    options = (socket.SO_RCVBUF, socket.SO_SNDBUF)
                    return [accepted.getsockopt(socket.SOL_SOCKET, option) for option in options]
        finally:
            network.close()

    usual = sizes(NetworkLimits())
    configured = sizes(NetworkLimits(receive_buffer_bytes=20_000, send_buffer_bytes=30_000))
    # Linux doubles them for its own bookkeeping.
    assert configured in ([20_000, 30_000], [40_000, 60_000])
    assert usual != configured


@pytest.mark.parametrize("available", [True, False])
def test_loopback_sockets_are_tuned(
    network: TcpNetwork, monkeypatch: pytest.MonkeyPatch, available: bool
) -> None:
    if not available:
        monkeypatch.delattr(socket, "TCP_CONGESTION", raising=False)
    elif not hasattr(socket, "TCP_CONGESTION"):
        pytest.skip("this system has no TCP_CONGESTION")
    seen: list[tuple[int, Any]] = []
    original = socket.socket.setsockopt

    def setsockopt(self: socket.socket, level: int, option: int, value: Any) -> None:
        seen.append((option, value))
        original(self, level, option, value)

    monkeypatch.setattr(socket.socket, "setsockopt", setsockopt)
    with socket.socket() as sock:
        tcp.tune(sock, "127.0.0.1")
        on_loopback = list(seen)
        seen.clear()
        tcp.tune(sock, "192.0.2.1")
        assert seen == [(socket.TCP_NODELAY, 1)]
    expected: list[tuple[int, int | bytes]] = [(socket.TCP_NODELAY, 1)]
    if available:
        expected.append((socket.TCP_CONGESTION, b"reno"))
    assert on_loopback == expected


def test_two_networks_share_a_reactor_and_close_independently(reactor: Reactor) -> None:
    networks = [TcpNetwork(reactor), TcpNetwork(reactor)]
    clients = []
    for network in networks:
        listener = network.listen("127.0.0.1", 0, lambda peer: Collect(bytes.upper))
        clients.append(Collect())
        network.connect("127.0.0.1", listener.address.port, clients[-1])
    serve_until(reactor, lambda: all(client.connection for client in clients))
    networks[0].close()
    clients[1].connection.send(b"still here")
    serve_until(reactor, lambda: clients[1].received == b"STILL HERE")
    assert clients[0].ended is not None
    networks[1].close()


def test_starting_and_stopping_leaks_no_descriptor(reactor: Reactor) -> None:
    def open_descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    if not Path("/proc/self/fd").exists():
        pytest.skip("descriptors cannot be counted here")
    gc.collect()  # What other tests left behind is closed before it is counted.
    before = open_descriptors()
    for _ in range(20):
        network = TcpNetwork(reactor)
        listener = network.listen("127.0.0.1", 0, lambda peer: Collect())
        client = Collect()
        network.connect("127.0.0.1", listener.address.port, client)
        serve_until(reactor, lambda: client.connection is not None)  # noqa: B023
        network.connect("127.0.0.1", listener.address.port, Collect())
        network.close()
        reactor.serve(0)
    assert open_descriptors() == before
    assert len(reactor.timers) == 0
