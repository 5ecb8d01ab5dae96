"""The listeners of a broker, and the connections before a request reaches dispatch.

Contains connection limits, frames, one request in progress per connection, idle time and draining.  Sockets
belong in runtime/, the contents of requests in dispatch.py.

A connection goes through transport (plain, or TLS under the connection) and authentication (none, a client's
certificate, or SASL: `sasl_login`), and is then ready.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable

from barnabas.base.log_text import shown
from barnabas.base.principals import ANONYMOUS
from barnabas.base.units import NS_PER_MS
from barnabas.broker.metrics.registry import Metrics
from barnabas.broker.network.connection_limits import ConnectionLimits
from barnabas.broker.network.dispatch import Dispatch
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.routes import Role
from barnabas.broker.network.sasl_login import SaslLogin
from barnabas.broker.security.sasl_setup import ListenerSasl
from barnabas.broker.security.tls_setup import ListenerTls
from barnabas.config.node.listeners import Endpoint
from barnabas.protocol.primitives import ProtocolError
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Buffer, Slice
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.network.network import (
    Address,
    CloseReason,
    Connection,
    Listener,
    Network,
    StreamHandler,
    TlsPeer,
)

logger = logging.getLogger(__name__)

# How often idle connections are closed, or a fourth of the idle time if that is shorter.
IDLE_SWEEP_MS = 10_000
# Connections of a listener that are turned away and still open; beyond that they are closed at once.
MAX_TURNED_AWAY = 1_000
# How long a connection may take to log in, TLS handshake included: until then it costs memory that nobody
# answers for, and a byte now and then would keep it from being idle.
LOGIN_TIMEOUT_MS = 60_000
# The maximum length of the logged reason for closing a connection.
MAX_REASON_LENGTH = 1_000
# How long one connection is served before others get their turn, and after how many requests
# the clock is read.
TURN_NS = 2_000_000
REQUESTS_BETWEEN_LOOKS = 4
_SIZE = struct.Struct(">i")
_SIZE_BYTES = _SIZE.size


class RequestStream(StreamHandler):
    """A client connection: frames in, responses out, one request in progress at a time."""

    __slots__ = (
        "_broker_listener",
        "_busy",
        "_connection",
        "_delay_ms",
        "_draining",
        "_limit",
        "_muted",
        "_now_ns",
        "_serve",
        "client_id_bytes",
        "context",
        "last_active_ns",
        "login_ends_ns",
    )

    _connection: Connection

    def __init__(self, broker_listener: BrokerListener, peer: Address, delay_ms: int = 0) -> None:
        self._delay_ms = delay_ms
        self._broker_listener = broker_listener
        self._serve: Callable[[memoryview, RequestStream], None] = broker_listener.dispatch.serve
        self._limit = broker_listener.max_request_bytes
        self._now_ns = broker_listener.clock.monotonic_ns
        self.last_active_ns = self._now_ns()
        # When the connection is closed if it has not logged in; None once it has.
        self.login_ends_ns: int | None = None
        if broker_listener.sasl is not None:
            self._serve = SaslLogin(broker_listener.sasl, broker_listener.dispatch).serve
            self._limit = broker_listener.sasl.max_receive_bytes
            self.login_ends_ns = self.last_active_ns + LOGIN_TIMEOUT_MS * NS_PER_MS
        self._busy = False
        self._muted = False
        self._draining = False
        self.client_id_bytes = b""
        self.context = RequestContext(
            0,
            0,
            0,
            "",
            principal=ANONYMOUS,
            listener=broker_listener.name,
            peer=peer,
            received_ns=self.last_active_ns,
        )

    # Callbacks of the connection --------------------------------------------------------------------------

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        self._broker_listener.joined(self)
        if self._delay_ms:
            self.mute(self._delay_ms)

    def secured(self, peer: TlsPeer) -> None:
        self.context.principal = self._broker_listener.principal_of(peer)

    def data_received(self, view: memoryview) -> int:
        connection = self._connection
        began_ns = self.last_active_ns = self.context.received_ns = self._now_ns()
        end = len(view)
        position = served = 0
        while end - position >= _SIZE_BYTES:
            if self._busy:
                # Further requests before the response is sent: leave them unread.
                connection.pause_reading()
                break
            if not connection.reading:
                break
            size: int = _SIZE.unpack_from(view, position)[0]
            if not 0 <= size <= self._limit:
                raise ProtocolError(f"a request of {size} bytes: 0 to {self._limit} are allowed")
            start = position + _SIZE_BYTES
            stop = start + size
            if stop > end:
                connection.expect(size + _SIZE_BYTES)
                break
            position = stop
            self._serve(view[start:stop], self)
            served += 1
            if not served % REQUESTS_BETWEEN_LOOKS and self._now_ns() - began_ns > TURN_NS:
                self._yield_to_others()
                break
        return position

    def _yield_to_others(self) -> None:
        """Yields to other connections: thousands of small requests may fit one buffer."""
        connection = self._connection
        if connection.reading:
            connection.pause_reading()
            connection.resume_reading()

    def closed(self, reason: CloseReason, error: BaseException | None) -> None:
        on_disconnect, self.context.on_disconnect = self.context.on_disconnect, None
        if on_disconnect is not None:
            on_disconnect()
        if reason is CloseReason.HANDLER_FAILED:
            self._broker_listener.failed(self, error)
        elif reason is CloseReason.TLS_FAILED:
            self._broker_listener.handshake_failed(self, error)
        self._broker_listener.left(self)

    # Calls of dispatch -----------------------------------------------------------------------------------

    def answer(self, *parts: Buffer | Slice) -> None:
        self._connection.send(*parts)
        if self._draining:
            self._connection.close_when_sent()

    def wait(self) -> None:
        self._busy = True

    def go_on(self) -> None:
        self._busy = False
        self.context.on_disconnect = None
        self.last_active_ns = self._now_ns()
        if self._draining:
            self._connection.close_when_sent()
        elif not self._muted:
            self._connection.resume_reading()

    def mute(self, throttle_ms: int) -> None:
        self._muted = True
        self._connection.pause_reading()
        self._broker_listener.after(throttle_ms, self, self._unmute)

    def _unmute(self) -> None:
        self._muted = False
        if not self._busy:
            self._connection.resume_reading()

    def fail(self, reason: str) -> None:
        logger.info("closing the connection from %s: %s", self.context.peer, shown(reason, MAX_REASON_LENGTH))
        self._connection.close()

    # Calls of the login ---------------------------------------------------------------------------------

    def logged_in(self, principal: str, serve: Callable[[memoryview, RequestStream], None]) -> None:
        self.context.principal = principal
        self.login_ends_ns = None
        self._serve = serve
        self._limit = self._broker_listener.max_request_bytes

    def login_failed(self, reason: str, delay_ms: int, *parts: Buffer) -> None:
        """The answer is late, so that guessing passwords takes time."""
        self._busy = True
        logger.info("authentication of %s failed: %s", self.context.peer, shown(reason, MAX_REASON_LENGTH))
        self._broker_listener.after(delay_ms, self, lambda: self._end_login(parts))

    def _end_login(self, parts: tuple[Buffer, ...]) -> None:
        self._connection.send(*parts)
        self._connection.close_when_sent()

    # Calls of the listener --------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        return not self._busy

    def drain(self) -> None:
        """Completes the request in progress, sends its response, and closes."""
        self._draining = True
        if not self._busy:
            self._connection.close_when_sent()

    def close(self) -> None:
        self._connection.close()


class TurnedAway(StreamHandler):
    """A connection of an address whose connections come too fast: never read, and closed after a while."""

    __slots__ = ("_broker_listener", "_connection", "_wait_ms")

    wants_tls = False
    _connection: Connection

    def __init__(self, broker_listener: BrokerListener, wait_ms: int) -> None:
        self._broker_listener = broker_listener
        self._wait_ms = wait_ms

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        connection.pause_reading()
        self._broker_listener.turned_away(self, self._wait_ms)

    def close(self) -> None:
        self._connection.close()

    def closed(self, reason: CloseReason, error: BaseException | None) -> None:
        self._broker_listener.turned_away_left(self)


class BrokerListener:
    """One listener of `listeners`, with its role."""

    def __init__(
        self,
        endpoint: Endpoint,
        role: Role,
        dispatch: Dispatch,
        limits: ConnectionLimits,
        metrics: Metrics,
        *,
        network: Network,
        clock: Clock,
        timers: TimerService,
        max_request_bytes: int,
        max_idle_ms: int,
        sasl: ListenerSasl | None = None,
        tls: ListenerTls | None = None,
    ) -> None:
        self.sasl = sasl
        self._tls = tls
        self.endpoint = endpoint
        self.name = endpoint.listener_name
        self.role = role
        self.dispatch = dispatch
        self.clock = clock
        self.max_request_bytes = max_request_bytes
        self._limits = limits
        self._metrics = metrics
        self._network = network
        self._timers = timers
        self._max_idle_ms = max_idle_ms
        # A dict for its order: a simulation must not depend on object addresses.
        self._streams: dict[RequestStream, None] = {}
        self._turned_away: dict[TurnedAway, None] = {}
        # Until then no connection is accepted, as they come too fast.
        self._accepts_again_ns = 0
        self._listener: Listener | None = None
        self._is_open = False
        self.on_empty: Callable[[], None] | None = None

    @property
    def address(self) -> Address:
        """The actual address: with port 0 the system has chosen the port."""
        assert self._listener is not None
        return self._listener.address

    @property
    def connection_count(self) -> int:
        return len(self._streams)

    def client_ids(self) -> set[str]:
        """Those of the open connections that have sent a request."""
        return {stream.context.client_id for stream in self._streams}

    def bind(self) -> None:
        """Binds the port; clients that connect wait until `open`.  Raises OSError if it is not available."""
        host, tls = self.endpoint.host or "", self._tls
        if tls is None:
            self._listener = self._network.listen(host, self.endpoint.port, self._accept)
        else:
            self._listener = self._network.listen(host, self.endpoint.port, self._accept, tls.tls)
        self._listener.pause_accepting()

    def open(self) -> None:
        """Starts to accept connections."""
        self._is_open = True
        self.make_room()
        self._sweep_later()

    def make_room(self) -> None:
        """Accepts connections if the limits allow it; called whenever a connection is closed."""
        if self._listener is None or not self._is_open:
            return
        if self.clock.monotonic_ns() >= self._accepts_again_ns and self._limits.has_room(self.name):
            self._listener.resume_accepting()
        else:
            self._listener.pause_accepting()

    def drain(self) -> None:
        """Accepts no more connections, completes requests in progress, and closes."""
        self._stop_listening()
        for stream in list(self._streams):
            stream.drain()

    def close(self) -> None:
        """Closes all remaining connections."""
        self._stop_listening()
        for stream in list(self._streams):
            stream.close()

    def _stop_listening(self) -> None:
        self._is_open = False
        self._timers.cancel((self, "sweep"))
        self._timers.cancel((self, "rate"))
        for turned_away in list(self._turned_away):
            turned_away.close()
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _accept(self, peer: Address) -> StreamHandler | None:
        now_ns = self.clock.monotonic_ns()
        arrival = self._limits.rates.arrived(self.name, peer.host, now_ns // NS_PER_MS)
        if arrival.turned_away_ms:
            self._metrics.connections_refused += 1
            return (
                TurnedAway(self, arrival.turned_away_ms) if len(self._turned_away) < MAX_TURNED_AWAY else None
            )
        if not self._limits.is_welcome(peer.host):
            self._metrics.connections_refused += 1
            logger.info(
                "refusing a connection from %s: it has as many as max.connections.per.ip allows", peer.host
            )
            return None
        if arrival.delay_ms:
            self._accepts_again_ns = now_ns + arrival.delay_ms * NS_PER_MS
            self._timers.set((self, "rate"), self._accepts_again_ns, self.make_room)
            self.make_room()
        return RequestStream(self, peer, arrival.delay_ms)

    # Callbacks of the streams -------------------------------------------------------------------------------

    def joined(self, stream: RequestStream) -> None:
        self._streams[stream] = None
        self._metrics.connections_accepted += 1
        self._limits.opened(self.name, stream.context.peer.host)
        self.make_room()

    def left(self, stream: RequestStream) -> None:
        if stream not in self._streams:
            return
        del self._streams[stream]
        self._timers.cancel((stream, "silent"))
        self._limits.closed(self.name, stream.context.peer.host)
        self.make_room()
        if not self._streams and self.on_empty is not None:
            self.on_empty()

    def turned_away(self, stream: TurnedAway, wait_ms: int) -> None:
        self._turned_away[stream] = None
        self._timers.set((stream, "wait"), self.clock.monotonic_ns() + wait_ms * NS_PER_MS, stream.close)

    def turned_away_left(self, stream: TurnedAway) -> None:
        self._turned_away.pop(stream, None)
        self._timers.cancel((stream, "wait"))

    def failed(self, stream: RequestStream, error: BaseException | None) -> None:
        self._metrics.connections_failed += 1
        if isinstance(error, ProtocolError):
            reason = shown(error.message, MAX_REASON_LENGTH)
            logger.info("closed the connection from %s: %s", stream.context.peer, reason)
        else:
            logger.error("an error while serving %r", stream.context, exc_info=error)

    def handshake_failed(self, stream: RequestStream, error: BaseException | None) -> None:
        self._metrics.connections_failed += 1
        reason = shown(str(error), MAX_REASON_LENGTH)
        logger.info("the TLS handshake of %s on %s failed: %s", stream.context.peer, self.name, reason)

    def principal_of(self, peer: TlsPeer) -> str:
        """The principal of a connection with TLS, before it has logged in by other means."""
        if self._tls is None or self.sasl is not None:
            return ANONYMOUS
        try:
            return self._tls.principal_of(peer)
        except ValueError as error:
            raise ProtocolError(f"the client's certificate names nobody: {error}") from error

    def after(self, delay_ms: int, stream: RequestStream, action: Callable[[], None]) -> None:
        self._timers.set((stream, "silent"), self.clock.monotonic_ns() + delay_ms * NS_PER_MS, action)

    # Idle connections --------------------------------------------------------------------------------------

    def _sweep_later(self) -> None:
        delay_ms = IDLE_SWEEP_MS
        if self._max_idle_ms >= 0:
            delay_ms = max(1, min(delay_ms, self._max_idle_ms // 4))
        elif self.sasl is None:
            return
        self._timers.set((self, "sweep"), self.clock.monotonic_ns() + delay_ms * NS_PER_MS, self._sweep)

    def _sweep(self) -> None:
        """Closes connections that were idle for connections.max.idle.ms and wait for no response, and those
        that do not log in."""
        now_ns = self.clock.monotonic_ns()
        latest_ns = now_ns - self._max_idle_ms * NS_PER_MS if self._max_idle_ms >= 0 else -1
        for stream in list(self._streams):
            if stream.is_idle and stream.last_active_ns < latest_ns:
                stream.close()
            elif stream.login_ends_ns is not None and stream.login_ends_ns < now_ns:
                stream.fail(f"it did not log in within {LOGIN_TIMEOUT_MS} ms")
        self._sweep_later()


def drain_all(
    listeners: list[BrokerListener], deadline_ns: int, timers: TimerService, done: Callable[[], None]
) -> None:
    """Drains every listener; `done` is called when all connections are closed, or at the deadline."""
    key = (id(listeners), "drain")

    def finish() -> None:
        timers.cancel(key)
        for broker_listener in listeners:
            broker_listener.on_empty = None
            broker_listener.close()
        done()

    def look() -> None:
        if not any(broker_listener.connection_count for broker_listener in listeners):
            finish()

    for broker_listener in listeners:
        broker_listener.on_empty = look
        broker_listener.drain()
    timers.set(key, deadline_ns, finish)
    look()
