"""TCP proxies in front of controllers or brokers, which drop or hold back what chosen nodes send and get.

A node is known by the client id of its connections (`2-quorum`, `broker-2-fetcher-0`), which its first
request carries.
"""

from __future__ import annotations

import re
import selectors
import socket
import struct
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.walkthrough.nodes import PATIENCE_S, Cluster, Node, combined
from tools.ports import free_ports

_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")
_NODE = re.compile(rb"(?:broker-)?(\d+)-")
_POLL_S = 0.05
VOTE_KEY = 52


class Proxy:
    """Forwards connections to one node.

    What the nodes in `cut` send is dropped, and not answered.  What the nodes in `held` send, and what is
    sent to them, waits until they are no longer held; it is lost if the connection ends before that.
    """

    def __init__(self, port: int) -> None:
        self.cut: frozenset[int] = frozenset()
        self.held: frozenset[int] = frozenset()
        self._target = port
        self._votes: Counter[int] = Counter()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._is_closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def votes_of(self, node_id: int) -> int:
        """Vote requests that this node has sent, pre-votes included."""
        return self._votes[node_id]

    def close(self) -> None:
        self._is_closed = True
        self._listener.close()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(connection,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        try:
            with client, socket.create_connection(("127.0.0.1", self._target), PATIENCE_S) as server:
                self._pump(client, server)
        except OSError:
            return

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        requests, responses = b"", b""
        sender: int | None = None
        with selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ)
            selector.register(server, selectors.EVENT_READ)
            while not self._is_closed:
                for key, _ in selector.select(_POLL_S):
                    data = (client if key.fileobj is client else server).recv(1 << 16)
                    if not data:
                        return
                    if key.fileobj is server:
                        responses += data
                    else:
                        requests += data
                sender = self._sender(requests, sender)
                if sender in self.held:
                    continue
                if sender not in self.cut:
                    client.sendall(responses)
                responses = b""
                for frame in _frames(requests):
                    requests = requests[len(frame) :]
                    self._count(frame, sender)
                    if sender not in self.cut:
                        server.sendall(frame)

    @staticmethod
    def _sender(requests: bytes, known: int | None) -> int | None:
        """The node that sent these requests, if one of them is whole and tells."""
        for frame in _frames(requests):
            length = _HEADER.unpack_from(frame, 4)[3]
            start = 4 + _HEADER.size
            found = _NODE.match(frame[start : start + max(length, 0)])
            known = int(found[1]) if found else known
        return known

    def _count(self, frame: bytes, sender: int | None) -> None:
        if _HEADER.unpack_from(frame, 4)[0] == VOTE_KEY and sender is not None:
            self._votes[sender] += 1


def _frames(data: bytes) -> Iterator[bytes]:
    """The whole requests in this data."""
    while len(data) >= 4 and len(data) >= 4 + (size := _SIZE.unpack_from(data)[0]):
        yield data[: 4 + size]
        data = data[4 + size :]


class _Proxied:
    """A cluster of combined nodes, and a proxy in front of a listener of each."""

    def __init__(
        self, folder: Path, count: int, options: Mapping[int, Mapping[str, str]] | None = None
    ) -> None:
        """`options` are those of certain nodes."""
        self.cluster = Cluster(folder, combined(count))
        self.proxies: dict[int, Proxy] = {}
        for node_id, given in (options or {}).items():
            self.cluster[node_id].options.update(given)

    def _proxy_for(self, node: Node) -> Proxy:
        """Changes the node's options so that others come through a proxy."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            for node in self.cluster.nodes.values():
                self.proxies[node.id] = self._proxy_for(node)
            self.cluster.up()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            for node in self.cluster.nodes.values():
                print(f"--- node {node.id}", *node.said()[-40:], sep="\n")
        self._close()

    def _close(self) -> None:
        self.cluster.down()
        for proxy in self.proxies.values():
            proxy.close()


class ProxiedControllers(_Proxied):
    """Their controllers reach each other through proxies."""

    def _proxy_for(self, node: Node) -> Proxy:
        proxy = Proxy(node.controller_port)
        node.advertised_controller_port = proxy.port
        node.options["advertised.listeners"] = (
            f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{proxy.port}"
        )
        return proxy

    def part(self, *groups: Collection[int]) -> None:
        """From now on, messages pass within these groups only; without groups, everywhere."""
        for group in groups or [self.proxies]:
            for node_id in group:
                self.proxies[node_id].cut = frozenset(self.proxies.keys() - set(group))


class ProxiedFollowers(_Proxied):
    """Followers fetch from leaders through proxies; clients and controllers do without."""

    def _proxy_for(self, node: Node) -> Proxy:
        (port,) = free_ports(1)
        proxy = Proxy(port)
        clients, controller = f"PLAINTEXT://127.0.0.1:{node.port}", f"127.0.0.1:{node.controller_port}"
        node.options.update(
            {
                "listeners": f"{clients},REPLICATION://127.0.0.1:{port},CONTROLLER://{controller}",
                "advertised.listeners": f"{clients},REPLICATION://127.0.0.1:{proxy.port}",
                "inter.broker.listener.name": "REPLICATION",
                "listener.security.protocol.map": (
                    "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT"
                ),
            }
        )
        return proxy

    def hold(self, leader: int, *followers: int) -> None:
        """These followers, and no others, get nothing from the leader for now."""
        self.proxies[leader].held = frozenset(followers)
