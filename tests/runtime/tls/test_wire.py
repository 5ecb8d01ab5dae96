"""TLS over loopback on the reactor: data both ways, large slices, refusals, half-open peers, hostile bytes."""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.loop.poller import make_poller
from barnabas.runtime.loop.reactor import Reactor
from barnabas.runtime.loop.workers import LoopWorkers, ThreadWorkers
from barnabas.runtime.network.network import CloseReason, NetworkLimits, StreamHandler, TlsPeer
from barnabas.runtime.network.tcp import TcpNetwork
from barnabas.runtime.tls import wire
from barnabas.runtime.tls.context import ClientAuth, Tls, TlsOptions
from barnabas.runtime.tls.stores import KeyMaterial

# Long enough for a busy machine; only a failing test waits for it.
PATIENCE_S = 120


class Collect(StreamHandler):
    """Keeps everything it receives; `answer` computes the reply."""

    def __init__(self, answer: Callable[[bytes], bytes] | None = None) -> None:
        self.received = bytearray()
        self.connection: Any = None
        self.peer: TlsPeer | None = None
        self.ended: tuple[CloseReason, BaseException | None] | None = None
        self._answer = answer

    def connected(self, connection: Any) -> None:
        self.connection = connection

    def secured(self, peer: TlsPeer) -> None:
        self.peer = peer

    def data_received(self, view: memoryview) -> int:
        self.received += view
        if self._answer is not None:
            self.connection.send(self._answer(bytes(view)))
        return len(view)

    def closed(self, reason: CloseReason, error: BaseException | None) -> None:
        self.ended = (reason, error)


class Ca:
    """A certificate authority, and the options of both sides that trust it."""

    def __init__(self) -> None:
        self.authority = trustme.CA()
        self.trusted = (self.authority.cert_pem.bytes().decode(),)

    def key(self, *names: str) -> KeyMaterial:
        leaf = self.authority.issue_cert(*names, common_name=names[0])
        chain = tuple(each.bytes().decode() for each in leaf.cert_chain_pems)
        return KeyMaterial(leaf.private_key_pem.bytes().decode(), chain)

    def server(self, *names: str, **options: Any) -> Tls:
        return Tls(TlsOptions(self.key(*names), self.trusted, **options), server=True)

    def client(self, key: KeyMaterial | None = None, **options: Any) -> Tls:
        return Tls(TlsOptions(key, self.trusted, **options), server=False)


@pytest.fixture(scope="module")
def ca() -> Ca:
    return Ca()


@pytest.fixture(params=["workers", "no workers"])
def network(request: pytest.FixtureRequest) -> Iterator[TcpNetwork]:
    reactor = Reactor(poller=make_poller(None))
    threads = ThreadWorkers()
    workers = LoopWorkers(threads, reactor.post) if request.param == "workers" else None
    # Small send buffers: sockets are full in the middle of a response.
    limits = NetworkLimits(send_buffer_bytes=8 << 10)
    network = TcpNetwork(reactor, workers=workers, limits=limits)
    yield network
    network.close()
    reactor.serve(0)
    assert network.connection_count == 0
    threads.close()
    reactor.close()


def serve_until(network: TcpNetwork, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        network.reactor.serve(1_000_000)


def connect(
    network: TcpNetwork, server: Tls, client: Tls, host: str = "127.0.0.1"
) -> tuple[Collect, Collect]:
    """A server that answers in capitals, and its client."""
    served = Collect(bytes.upper)
    listener = network.listen("127.0.0.1", 0, lambda peer: served, server)
    asking = Collect()
    network.connect(host, listener.address.port, asking, client)
    return served, asking


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_bytes_are_exchanged(network: TcpNetwork, ca: Ca, protocol: str) -> None:
    served, client = connect(network, ca.server("127.0.0.1", protocols=(protocol,)), ca.client())
    serve_until(network, lambda: client.connection is not None)
    # Sent before the handshake has begun: it waits for it.
    client.connection.send(b"hello ", b"world")
    serve_until(network, lambda: client.received == b"HELLO WORLD")
    assert served.peer == TlsPeer(None)
    assert client.peer is not None
    assert client.peer.certificate is not None
    client.connection.close()
    serve_until(network, lambda: bool(served.ended))
    assert served.ended == (CloseReason.PEER, None)


def test_large_amounts_pass_unchanged_in_both_directions(network: TcpNetwork, ca: Ca) -> None:
    data = bytes(range(97, 123)) * 200_000
    _, client = connect(network, ca.server("127.0.0.1"), ca.client())
    serve_until(network, lambda: client.connection is not None)
    client.connection.send(*(data[at : at + 7_001] for at in range(0, len(data), 7_001)))
    serve_until(network, lambda: len(client.received) == len(data))
    assert client.received == data.upper()


def test_slices_of_files_follow_what_was_sent_before(network: TcpNetwork, ca: Ca, tmp_path: Path) -> None:
    disk = FolderDisk()
    content = os.urandom(3 << 20)
    file = disk.open(f"{tmp_path}/segment", create=True)
    file.append([content])
    served, client = connect(network, ca.server("127.0.0.1"), ca.client())
    serve_until(network, lambda: client.peer is not None and served.peer is not None)
    served.connection.send(b"<", file.slice(0, len(content)), b"|", file.slice(5, 10), b">")
    served.connection.close_when_sent()
    serve_until(network, lambda: bool(client.ended))
    assert client.received == b"<" + content + b"|" + content[5:15] + b">"
    assert client.ended == (CloseReason.PEER, None)


def test_a_client_may_have_to_show_its_certificate(network: TcpNetwork, ca: Ca) -> None:
    server = ca.server("127.0.0.1", client_auth=ClientAuth.REQUIRED)
    served, client = connect(network, server, ca.client(ca.key("alice")))
    serve_until(network, lambda: served.peer is not None)
    assert served.peer is not None
    assert served.peer.certificate is not None
    served, client = connect(network, server, ca.client())
    serve_until(network, lambda: bool(served.ended) and bool(client.ended))
    assert served.ended is not None
    assert served.ended[0] is CloseReason.TLS_FAILED
    assert served.peer is None


@pytest.mark.parametrize("auth", [ClientAuth.REQUESTED, ClientAuth.REQUIRED])
def test_a_certificate_of_a_foreign_authority_is_refused(
    network: TcpNetwork, ca: Ca, auth: ClientAuth
) -> None:
    served, client = connect(network, ca.server("127.0.0.1", client_auth=auth), ca.client(Ca().key("alice")))
    serve_until(network, lambda: bool(served.ended) and bool(client.ended))
    assert served.ended is not None
    assert served.ended[0] is CloseReason.TLS_FAILED


def test_the_name_of_a_server_is_checked(network: TcpNetwork, ca: Ca) -> None:
    _, client = connect(network, ca.server("other.example"), ca.client())
    serve_until(network, lambda: bool(client.ended))
    assert client.ended is not None
    reason, error = client.ended
    assert reason is CloseReason.TLS_FAILED
    assert isinstance(error, ssl.SSLCertVerificationError)
    assert "127.0.0.1" in error.verify_message
    _served, client = connect(network, ca.server("other.example"), ca.client(check_host=False))
    serve_until(network, lambda: client.peer is not None)


def test_an_unknown_authority_is_refused(network: TcpNetwork, ca: Ca) -> None:
    served, client = connect(network, Ca().server("127.0.0.1"), ca.client())
    serve_until(network, lambda: bool(client.ended) and bool(served.ended))
    assert client.ended is not None
    assert client.ended[0] is CloseReason.TLS_FAILED
    assert client.peer is None


def test_replaced_certificates_serve_the_next_connection(network: TcpNetwork, ca: Ca) -> None:
    server = ca.server("127.0.0.1")
    listener = network.listen("127.0.0.1", 0, lambda peer: Collect(bytes.upper), server)
    seen = []
    for _ in range(2):
        client = Collect()
        network.connect("127.0.0.1", listener.address.port, client, ca.client())
        serve_until(network, lambda: client.peer is not None)  # noqa: B023
        assert client.peer is not None
        seen.append(client.peer.certificate)
        server.replace(TlsOptions(ca.key("127.0.0.1"), ca.trusted))
    assert seen[0] != seen[1]


def test_only_allowed_suites_of_tls_1_3_are_accepted(network: TcpNetwork, ca: Ca) -> None:
    server = ca.server("127.0.0.1", cipher_suites=("TLS_AES_128_GCM_SHA256",))
    served, _ = connect(network, server, ca.client())
    serve_until(network, lambda: bool(served.ended))
    assert served.ended is not None
    assert "TLS_AES_256_GCM_SHA384" in str(served.ended[1])


def test_suites_of_tls_1_2_have_their_names_in_java(network: TcpNetwork, ca: Ca) -> None:
    suites = ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    server = ca.server("127.0.0.1", cipher_suites=suites)
    assert server.context.maximum_version is ssl.TLSVersion.TLSv1_2
    _, client = connect(network, server, ca.client())
    serve_until(network, lambda: client.peer is not None)


# M: reliability.md, hostile input on a TLS listener.
@pytest.mark.parametrize(
    "hostile",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\x00\x00\x14\x00\x12\x00\x00\x00\x00\x00\x00",
        b"\x16\x03\x01\xff\xff" + b"\x01" * 64_000,
        b"\x16\x03\x01\x00\x05\x01\xff\xff\xff\xff",
        b"\x16" + bytes(4_000),
    ],
)
def test_what_is_no_handshake_ends_the_connection(network: TcpNetwork, ca: Ca, hostile: bytes) -> None:
    served = Collect()
    listener = network.listen("127.0.0.1", 0, lambda peer: served, ca.server("127.0.0.1"))
    with socket.create_connection(("127.0.0.1", listener.address.port)) as peer:
        peer.sendall(hostile)
        peer.shutdown(socket.SHUT_WR)
        serve_until(network, lambda: bool(served.ended))
    assert served.ended is not None
    assert served.ended[0] in (CloseReason.TLS_FAILED, CloseReason.PEER)
    assert not served.received


def test_half_open_handshakes_end_by_time_and_do_not_hold_others(
    network: TcpNetwork, ca: Ca, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "HANDSHAKE_TIMEOUT_MS", 300)
    handlers: list[Collect] = []

    def accept(peer: object) -> StreamHandler:
        handlers.append(Collect(bytes.upper))
        return handlers[-1]

    listener = network.listen("127.0.0.1", 0, accept, ca.server("127.0.0.1"))
    silent = [socket.create_connection(("127.0.0.1", listener.address.port)) for _ in range(50)]
    try:
        serve_until(network, lambda: len(handlers) == len(silent))
        monkeypatch.setattr(wire, "HANDSHAKE_TIMEOUT_MS", 1_000_000)
        client = Collect()
        network.connect("127.0.0.1", listener.address.port, client, ca.client())
        serve_until(network, lambda: client.connection is not None)
        client.connection.send(b"x")
        serve_until(network, lambda: client.received == b"X")
        serve_until(network, lambda: all(handler.ended for handler in handlers[:50]))
    finally:
        for each in silent:
            each.close()
    assert all(isinstance(handler.ended and handler.ended[1], TimeoutError) for handler in handlers[:50])
    assert not handlers[50].ended


def test_a_cut_handshake_ends_the_connection(network: TcpNetwork, ca: Ca) -> None:
    """A client hello of Python's own client, cut at every 37th byte."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = ca.client().wrap(incoming, outgoing, "127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    hello = outgoing.read()
    for cut in range(1, len(hello), 37):
        served = Collect()
        listener = network.listen("127.0.0.1", 0, lambda peer, served=served: served, ca.server("127.0.0.1"))  # type: ignore[misc]
        with socket.create_connection(("127.0.0.1", listener.address.port)) as peer:
            peer.sendall(hello[:cut])
        serve_until(network, lambda: bool(served.ended))  # noqa: B023
        listener.close()
        assert served.peer is None


class Scripted:
    """In place of OpenSSL's session after the handshake: messages of TLS that are no data."""

    def __init__(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, answer: bytes) -> None:
        self._incoming, self._outgoing, self._answer = incoming, outgoing, answer

    def read(self, *_: object) -> int:
        if self._incoming.read():
            self._outgoing.write(self._answer)
        raise ssl.SSLWantReadError

    def pending(self) -> int:
        return 0

    def unwrap(self) -> None:
        """Nothing is said at the end."""


def established(network: TcpNetwork, ca: Ca) -> tuple[Collect, Collect]:
    served, client = connect(network, ca.server("127.0.0.1"), ca.client())
    serve_until(network, lambda: client.peer is not None and served.peer is not None)
    return served, client


def test_a_peer_that_sends_messages_of_tls_alone_is_closed(network: TcpNetwork, ca: Ca) -> None:
    """9,000 messages that change the keys fit 256 KB, and OpenSSL takes 140 ms for them."""
    served, client = established(network, ca)
    under = served.connection._wire
    under._session = Scripted(under._incoming, under._outgoing, b"")
    client.connection.send(bytes(1 << 20))
    serve_until(network, lambda: bool(served.ended))
    assert served.ended is not None
    assert "no data" in str(served.ended[1])
    assert not served.received


def test_a_peer_that_makes_tls_answer_and_does_not_read_is_closed(
    network: TcpNetwork, ca: Ca, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MAX_BARREN_BYTES", 1 << 40)
    served, client = established(network, ca)
    under = served.connection._wire
    under._session = Scripted(under._incoming, under._outgoing, bytes(100))

    def full(data: object) -> int:
        raise BlockingIOError

    under._inner.send = full
    for _ in range(100):
        if served.ended:
            break
        client.connection.send(bytes(100))
        network.reactor.serve(1_000_000)
    serve_until(network, lambda: bool(served.ended))
    assert served.ended is not None
    assert "does not read" in str(served.ended[1])
    assert len(under._unsent) <= wire.MAX_OUTPUT_BYTES


def test_data_that_arrive_in_small_pieces_are_no_barren_messages(
    network: TcpNetwork, ca: Ca, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record of 16 KB is whole only after many pieces."""
    monkeypatch.setattr(wire, "FIRST_PIECE_BYTES", 1 << 10)
    _, client = established(network, ca)
    data = bytes(range(97, 123)) * 20_000
    client.connection.send(data)
    serve_until(network, lambda: len(client.received) == len(data))
    assert client.received == data.upper()
