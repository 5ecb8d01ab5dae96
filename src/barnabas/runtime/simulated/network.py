"""The simulated twin of the network: listening and connecting between simulated nodes.

Contains names, ports, and establishing a connection.  The transfer of bytes belongs in `simulated.streams`,
and what a connection does with them in `connection`, the same as in production.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.network.connection import ConnectionContext, StreamConnection
from barnabas.runtime.network.network import Address, CloseReason, NetworkLimits, StreamHandler
from barnabas.runtime.simulated.streams import RETRANSMIT_NS, Host, SimulatedWire, Streams, os_error

if TYPE_CHECKING:
    from barnabas.runtime.tls.context import Tls

FIRST_EPHEMERAL_PORT = 49_152


def host_name(node_id: int) -> str:
    """The host name of a node."""
    return f"node{node_id}"


class Internet:
    """All hosts and listeners."""

    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        self.hosts: dict[str, Host] = {}
        self.listeners: dict[Address, SimulatedListener] = {}
        self._next_port = FIRST_EPHEMERAL_PORT

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port


class SimulatedListener:
    """See `network.Listener`."""

    def __init__(
        self,
        network: SimulatedNetwork,
        address: Address,
        on_connection: Callable[[Address], StreamHandler | None],
    ) -> None:
        self.network = network
        self.address = address
        self.on_connection = on_connection
        self.is_accepting = True

    def pause_accepting(self) -> None:
        self.is_accepting = False

    def resume_accepting(self) -> None:
        self.is_accepting = True

    def close(self) -> None:
        self.network.internet.listeners.pop(self.address, None)


class SimulatedNetwork:
    """One node's network; see `network.Network`."""

    def __init__(self, host: Host, internet: Internet, limits: NetworkLimits | None = None) -> None:
        self.internet = internet
        self._host = host
        self._limits = limits if limits is not None else NetworkLimits()
        # Made for the first connection: it has a large buffer, and many scenarios send messages only.
        self._around: ConnectionContext | None = None
        internet.hosts[host_name(host.id)] = host

    @property
    def host(self) -> Host:
        return self._host

    def listen(
        self,
        host: str,
        port: int,
        on_connection: Callable[[Address], StreamHandler | None],
        tls: Tls | None = None,
    ) -> SimulatedListener:
        """The host is always this node's own; an empty one means the same."""
        _refuse(tls)
        own = host_name(self._host.id)
        if host not in ("", own):
            raise os_error(errno.EADDRNOTAVAIL)
        address = Address(own, port or self.internet.free_port())
        if address in self.internet.listeners:
            raise os_error(errno.EADDRINUSE)
        listener = self.internet.listeners[address] = SimulatedListener(self, address, on_connection)
        return listener

    def connect(self, host: str, port: int, handler: StreamHandler, tls: Tls | None = None) -> None:
        _refuse(tls)
        local = Address(host_name(self._host.id), self.internet.free_port())
        attempt = _Attempt(self, handler, local, Address(host, port))
        deadline_ns = self._host.clock.monotonic_ns() + self._limits.connect_timeout_ms * NS_PER_MS
        self._host.timers.set(attempt, deadline_ns, attempt.time_out)
        attempt.try_after(self.internet.streams.links.delay_ns())

    def close(self) -> None:
        self._close_listeners()
        for connection in list(self._around.connections if self._around is not None else ()):
            connection.close()

    def adopt(self, wire: SimulatedWire, handler: StreamHandler, local: Address, peer: Address) -> None:
        """Make a connection of one end of a stream."""
        if self._around is None:
            self._around = self._new_context()
        wire.connection = StreamConnection(wire, handler, self._around, local, peer)
        wire.connection.start()

    def drop(self, *, notify_peers: bool) -> None:
        """The process has ended: its handlers are not called any more.  A machine without power notifies no
        one."""
        self._close_listeners()
        for wire in self.internet.streams.wires_of(self._host.id):
            wire.drop()
            self.internet.streams.forget(wire)
            if notify_peers:
                wire.reset_peer_later()
        self._around = None

    def _close_listeners(self) -> None:
        for listener in list(self.internet.listeners.values()):
            if listener.network is self:
                listener.close()

    def _new_context(self) -> ConnectionContext:
        host = self._host
        return ConnectionContext(
            limits=self._limits,
            timers=host.timers,
            now_ns=host.clock.monotonic_ns,
            at_tick_end=partial(host.after, 0),
            warm=None,
        )


class _Attempt:
    """One call of `connect`: tries until the peer responds or the timeout expires."""

    def __init__(
        self, network: SimulatedNetwork, handler: StreamHandler, local: Address, peer: Address
    ) -> None:
        self._network = network
        self._internet = network.internet
        self._streams = network.internet.streams
        self._host = network.host
        self._life = network.host.life
        self._handler = handler
        self._local = local
        self._peer = peer
        self._over = False

    def try_after(self, delay_ns: int) -> None:
        self._streams.agenda.after(delay_ns, self._try)

    def time_out(self) -> None:
        self._over = True
        self._handler.closed(CloseReason.CONNECT_TIMED_OUT, None)

    def _try(self) -> None:
        if self._over or not self._is_alive():
            return
        target = self._internet.hosts.get(self._peer.host)
        if target is None:
            self._host.after(0, partial(self._refused, os_error(errno.EHOSTUNREACH)))
            return
        here, there = self._host.id, target.id
        if not target.is_up or not self._streams.passes(here, there) or not self._streams.passes(there, here):
            self.try_after(RETRANSMIT_NS)
            return
        listener = self._internet.listeners.get(self._peer)
        if listener is None:
            self._host.after(
                self._streams.links.delay_ns(), partial(self._refused, os_error(errno.ECONNREFUSED))
            )
            return
        target.after(0, partial(self._accepted, listener))

    def _accepted(self, listener: SimulatedListener) -> None:
        """Runs on the listening node."""
        if self._over or not self._is_alive():
            return
        if not listener.is_accepting:
            self.try_after(RETRANSMIT_NS)
            return
        handler = listener.on_connection(self._local)
        near, far = self._streams.wire(self._host), self._streams.wire(listener.network.host)
        near.join(far)
        far.join(near)
        if handler is None:
            far.close()
        else:
            listener.network.adopt(far, handler, self._peer, self._local)
        self._host.after(self._streams.links.delay_ns(), partial(self._connected, near))

    def _connected(self, near: SimulatedWire) -> None:
        if self._over:
            near.close()
            return
        self._over = True
        self._host.timers.cancel(self)
        self._network.adopt(near, self._handler, self._local, self._peer)

    def _refused(self, error: OSError) -> None:
        if not self._over:
            self._over = True
            self._host.timers.cancel(self)
            self._handler.closed(CloseReason.CONNECT_FAILED, error)

    def _is_alive(self) -> bool:
        return self._host.is_up and self._host.life == self._life


def _refuse(tls: Tls | None) -> None:
    if tls is not None:
        raise ValueError("simulated streams have no TLS: OpenSSL draws random numbers that no seed repeats")
