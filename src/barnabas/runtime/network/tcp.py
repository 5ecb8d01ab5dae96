"""The real network: TCP over IPv4 and IPv6, on the reactor.

Contains sockets and their peculiarities.  What a connection does with its bytes belongs in `connection`.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.disk.disk import Slice
from barnabas.runtime.loop.executor import WorkerPool
from barnabas.runtime.loop.poller import READ, WRITE
from barnabas.runtime.loop.reactor import Reactor
from barnabas.runtime.network.connection import ConnectionContext, Endpoint, StreamConnection
from barnabas.runtime.network.network import Address, CloseReason, Listener, NetworkLimits, StreamHandler

if TYPE_CHECKING:
    from barnabas.runtime.tls.context import Tls
    from barnabas.runtime.tls.wire import TlsLayer

logger = logging.getLogger(__name__)

# One tick accepts at most this many connections of a listener before others get their turn.
MAX_ACCEPTS_PER_TICK = 64
# Without a free descriptor, accepting pauses this long instead of spinning on a listener that stays ready.
ACCEPT_RETRY_MS = 100
# The warning is repeated once a minute meanwhile.
RETRIES_PER_WARNING = 600
# Addresses of one name that are tried in turn.
MAX_ADDRESSES_TRIED = 8

_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_IN_PROGRESS = frozenset({0, errno.EINPROGRESS, errno.EWOULDBLOCK})


class TcpWire:
    """A connected socket as a connection sees it."""

    __slots__ = ("_reactor", "_socket", "_watch", "fileno", "recv_into", "send", "sendmsg")

    def __init__(self, reactor: Reactor, sock: socket.socket) -> None:
        self._reactor = reactor
        self._socket = sock
        # The socket's own methods, bound once: they are called for every read and write.
        self.recv_into: Callable[[memoryview], int] = sock.recv_into
        self.send: Callable[[Any], int] = sock.send
        self.sendmsg: Callable[[Any], int] = sock.sendmsg
        self.fileno: Callable[[], int] = sock.fileno

    def attach(self, endpoint: Endpoint) -> None:
        self._watch = self._reactor.watch(self._socket.fileno(), endpoint.on_readable, endpoint.on_writable)

    def want(self, mask: int) -> None:
        self._reactor.want(self._watch, mask)

    def close(self) -> None:
        self._reactor.forget(self._watch)
        self._socket.close()


class TcpListener:
    """A listening socket."""

    def __init__(
        self,
        network: TcpNetwork,
        sock: socket.socket,
        on_connection: Callable[[Address], StreamHandler | None],
        tls: Tls | None,
    ) -> None:
        self._network = network
        self._tls = tls
        self._socket = sock
        self._on_connection = on_connection
        self.address = _address(sock.getsockname())
        self.refused = 0
        self.out_of_descriptors = 0
        self._paused = False
        self._watch = network.reactor.watch(sock.fileno(), self._accept, _nothing)
        network.reactor.want(self._watch, READ)

    def pause_accepting(self) -> None:
        self._paused = True
        self._update_wants()

    def resume_accepting(self) -> None:
        self._paused = False
        self._update_wants()

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._network.reactor.timers.cancel((self, "accept"))
            self._network.reactor.forget(self._watch)
            self._socket.close()
            self._network.listeners.discard(self)

    def _accept(self) -> None:
        for _ in range(MAX_ACCEPTS_PER_TICK):
            try:
                sock, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                self._wait_for_room()
                return
            if sock.fileno() >= self._network.limits.connections_below:
                sock.close()
                self._wait_for_room()
                return
            try:
                handler = self._on_connection(_address(peer))
            except Exception:
                sock.close()
                raise
            if handler is None:
                self.refused += 1
                sock.close()
            else:
                self._network.adopt(sock, handler, self._tls if handler.wants_tls else None)
            if self._paused:
                return

    def _update_wants(self) -> None:
        if self._socket.fileno() >= 0:
            self._network.reactor.want(self._watch, 0 if self._paused else READ)

    def _wait_for_room(self) -> None:
        if not self.out_of_descriptors % RETRIES_PER_WARNING:
            logger.warning(
                "%s: too many open files, new connections are not accepted; "
                "raise the limit (ulimit -n) and restart",
                self.address,
            )
        self.out_of_descriptors += 1
        reactor = self._network.reactor
        reactor.want(self._watch, 0)
        deadline_ns = reactor.clock.monotonic_ns() + ACCEPT_RETRY_MS * NS_PER_MS
        reactor.timers.set((self, "accept"), deadline_ns, self._update_wants)


class TcpNetwork:
    """See `network.Network`."""

    def __init__(
        self,
        reactor: Reactor,
        *,
        limits: NetworkLimits | None = None,
        workers: WorkerPool | None = None,
    ) -> None:
        self.reactor = reactor
        self.limits = limits if limits is not None else NetworkLimits()
        self.listeners: set[TcpListener] = set()
        self._workers = workers
        self._tls: TlsLayer | None = None
        self._attempts: set[_Attempt] = set()
        self._around = ConnectionContext(
            limits=self.limits,
            timers=reactor.timers,
            now_ns=reactor.clock.monotonic_ns,
            at_tick_end=reactor.at_tick_end,
            warm=None if workers is None else self._warm,
        )

    @property
    def connection_count(self) -> int:
        return len(self._around.connections)

    def listen(
        self,
        host: str,
        port: int,
        on_connection: Callable[[Address], StreamHandler | None],
        tls: Tls | None = None,
    ) -> Listener:
        listener = TcpListener(self, _listening_socket(host, port, self.limits), on_connection, tls)
        self.listeners.add(listener)
        return listener

    def connect(self, host: str, port: int, handler: StreamHandler, tls: Tls | None = None) -> None:
        attempt = _Attempt(self, handler, tls, host)
        self._attempts.add(attempt)
        if self._workers is None or _is_literal(host):
            try:
                attempt.resolved(_resolve(host, port), None)
            except OSError as error:
                attempt.resolved(None, error)
        else:
            self._workers.submit(partial(_resolve, host, port), attempt.resolved)

    def close(self) -> None:
        for listener in list(self.listeners):
            listener.close()
        for attempt in list(self._attempts):
            attempt.give_up(CloseReason.LOCAL, None)
        for connection in list(self._around.connections):
            connection.close()

    def adopt(
        self, sock: socket.socket, handler: StreamHandler, tls: Tls | None = None, host: str = ""
    ) -> None:
        """Make a connection of a connected socket."""
        try:
            local, peer = _address(sock.getsockname()), _address(sock.getpeername())
            tune(sock, peer.host)
        except OSError as error:
            # It broke before it could be accepted.
            sock.close()
            self.reactor.at_tick_end(partial(handler.closed, CloseReason.RESET, error))
            return
        wire = TcpWire(self.reactor, sock)
        if tls is not None:
            self._tls_layer().adopt(wire, tls, host, handler, local, peer)
            return
        connection = StreamConnection(wire, handler, self._around, local, peer)
        wire.attach(connection)
        connection.start()

    def _tls_layer(self) -> TlsLayer:
        if self._tls is None:
            # A broker without TLS starts without loading OpenSSL.
            from barnabas.runtime.tls.wire import TlsLayer

            self._tls = TlsLayer(self._around, self._workers)
        return self._tls

    def forget_attempt(self, attempt: _Attempt) -> None:
        self._attempts.discard(attempt)

    def _warm(self, part: Slice, done: Callable[[], None]) -> None:
        assert self._workers is not None
        # If reading fails, so will sending, and that closes the connection with the error.
        self._workers.submit(part.bring_in, lambda _result, _error: done())


class _Attempt:
    """One call of `connect`: tries the addresses of the name one after another, until one accepts."""

    def __init__(self, network: TcpNetwork, handler: StreamHandler, tls: Tls | None, host: str) -> None:
        self._tls = tls
        self._host = host
        self._network = network
        self._reactor = network.reactor
        self._handler = handler
        self._addresses: list[tuple[int, Any]] = []
        self._socket: socket.socket | None = None
        self._error: BaseException | None = None
        self._over = False
        deadline_ns = self._reactor.clock.monotonic_ns() + network.limits.connect_timeout_ms * NS_PER_MS
        self._reactor.timers.set(self, deadline_ns, self._timed_out)

    def resolved(self, addresses: object, error: BaseException | None) -> None:
        if self._over:
            return
        self._error = error
        self._addresses = list(addresses) if isinstance(addresses, list) else []
        self._try_next()

    def give_up(self, reason: CloseReason, error: BaseException | None) -> None:
        self._end()
        if self._socket is not None:
            self._socket.close()
        self._reactor.at_tick_end(partial(self._handler.closed, reason, error))

    def _try_next(self) -> None:
        while self._addresses:
            family, address = self._addresses.pop(0)
            try:
                sock = socket.socket(family, socket.SOCK_STREAM)
            except OSError as error:
                self._error = error
                continue
            sock.setblocking(False)
            code = sock.connect_ex(address)
            if code in _IN_PROGRESS:
                self._socket = sock
                self._watch = self._reactor.watch(sock.fileno(), _nothing, self._answered)
                self._reactor.want(self._watch, WRITE)
                return
            self._error = _os_error(code)
            sock.close()
        self.give_up(CloseReason.CONNECT_FAILED, self._error)

    def _answered(self) -> None:
        sock = self._socket
        assert sock is not None
        self._reactor.forget(self._watch)
        self._socket = None
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._error = _os_error(code)
            sock.close()
            self._try_next()
            return
        self._end()
        self._network.adopt(sock, self._handler, self._tls, self._host)

    def _timed_out(self) -> None:
        self.give_up(CloseReason.CONNECT_TIMED_OUT, self._error)

    def _end(self) -> None:
        self._over = True
        self._reactor.timers.cancel(self)
        self._network.forget_attempt(self)
        if self._socket is not None:
            self._reactor.forget(self._watch)


def _listening_socket(host: str, port: int, limits: NetworkLimits) -> socket.socket:
    backlog = limits.listen_backlog
    if not host and socket.has_dualstack_ipv6():
        sock = socket.create_server(("", port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True)
    else:
        infos = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # A name with both kinds of address gets IPv4, as Apache Kafka's brokers do on Java.
        family, _, _, _, address = min(infos, key=lambda each: each[0] != socket.AF_INET)
        sock = socket.create_server(address[:2], family=family, backlog=backlog)
    # Accepted sockets inherit them, and only then do they apply when the window is negotiated.
    if limits.receive_buffer_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)
    if limits.send_buffer_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
    sock.setblocking(False)
    return sock


def _resolve(host: str, port: int) -> list[tuple[int, Any]]:
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in infos[:MAX_ADDRESSES_TRIED]]


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _address(name: Any) -> Address:
    return Address(name[0].removeprefix("::ffff:"), name[1])


def tune(sock: socket.socket, peer_host: str) -> None:
    """Options of every connected socket."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    congestion = getattr(socket, "TCP_CONGESTION", None)
    if congestion is None or not ipaddress.ip_address(peer_host.partition("%")[0]).is_loopback:
        return
    # A pacing algorithm such as BBR throttles the loopback, where there is nothing to pace for: 1 MB
    # fetches were 2.5 times slower.  A remote peer keeps the administrator's choice.
    try:
        sock.setsockopt(socket.IPPROTO_TCP, congestion, b"reno")
    except OSError:
        return


def _os_error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def _nothing() -> None:
    """This kind of readiness is not used."""
