"""A network that can be cut: each controller is reached through a relay that knows who connects.

A connection of the quorum begins with a request whose client id names the node; all nodes send one.  What is cut
stays open and carries nothing, as if packets were lost; when the cut is healed, its connections are closed.
"""

from __future__ import annotations

import re
import selectors
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field

from tests.verify.quorum.mixed_cluster import MixedCluster

CHUNK = 65_536
HEADER_BYTES = 14
RELAY_PORTS = 50
# Apache Kafka's nodes and ours.
SENDER = re.compile(rb"raft-client-(\d+)|^(\d+)-quorum")


def sender_of(first: bytes) -> int | None:
    """The node whose request this is; None if it is not one of the quorum's."""
    size = int.from_bytes(first[12:14], "big", signed=True)
    found = SENDER.search(first[HEADER_BYTES : HEADER_BYTES + size]) if size > 0 else None
    return None if found is None else int(next(filter(None, found.groups())))


@dataclass
class Link:
    """One connection through a relay."""

    near: socket.socket
    far: socket.socket
    sender: int | None
    target: int
    was_cut: bool = False

    def close(self) -> None:
        for end in (self.near, self.far):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@dataclass
class Cuts:
    """The relays of all controllers; `cut` has pairs (from, to) whose requests are lost."""

    cluster: MixedCluster
    _cut: set[tuple[int, int]] = field(default_factory=set)
    _links: list[Link] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _servers: list[socket.socket] = field(default_factory=list)

    def start(self) -> None:
        for member in self.cluster.controllers():
            member.public_port = member.port + RELAY_PORTS
            server = socket.create_server(("localhost", member.public_port))
            self._servers.append(server)
            threading.Thread(target=self._accept, args=(server, member.number), daemon=True).start()

    def isolate(self, number: int) -> None:
        """Nothing between this controller and the others, in either direction."""
        others = [member.number for member in self.cluster.controllers() if member.number != number]
        with self._lock:
            self._cut |= {(number, other) for other in others} | {(other, number) for other in others}

    def silence(self, number: int) -> None:
        """No request of the others arrives at this controller; its own requests arrive, and are answered."""
        others = [member.number for member in self.cluster.controllers() if member.number != number]
        with self._lock:
            self._cut |= {(other, number) for other in others}

    def block(self, sender: int, target: int) -> None:
        """No request of one controller arrives at another one; those in the other direction do."""
        with self._lock:
            self._cut.add((sender, target))

    def heal(self) -> None:
        with self._lock:
            self._cut.clear()
            stale = [link for link in self._links if link.was_cut]
            self._links = [link for link in self._links if not link.was_cut]
        for link in stale:
            link.close()

    def stop(self) -> None:
        for server in self._servers:
            # A socket that a thread accepts on keeps its port until that thread wakes up.
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            server.close()
        for link in self._links:
            link.close()

    def _accept(self, server: socket.socket, target: int) -> None:
        while True:
            try:
                near, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(near, target), daemon=True).start()

    def _relay(self, near: socket.socket, target: int) -> None:
        try:
            first = near.recv(CHUNK)
            far = socket.create_connection(("localhost", self.cluster.members[target].port))
        except OSError:
            near.close()
            return
        link = Link(near, far, sender_of(first), target)
        with self._lock:
            self._links.append(link)
        with suppress(OSError, ValueError):
            self._carry(link, first)
        link.close()

    def _carry(self, link: Link, first: bytes) -> None:
        """Until one side closes."""
        near, far = link.near, link.far
        if not self._is_lost(link):
            far.sendall(first)
        with selectors.DefaultSelector() as selector:
            selector.register(near, selectors.EVENT_READ)
            selector.register(far, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    source = near if key.fileobj is near else far
                    data = source.recv(CHUNK)
                    if not data:
                        return
                    if not self._is_lost(link):
                        (far if source is near else near).sendall(data)

    def _is_lost(self, link: Link) -> bool:
        with self._lock:
            if link.sender is not None and (link.sender, link.target) in self._cut:
                link.was_cut = True
            return link.was_cut
