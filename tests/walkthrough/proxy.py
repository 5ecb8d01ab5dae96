"""TCP proxies in front of the controllers, which drop the requests of chosen nodes.

A node is known by the client id of its connections (`2-quorum`), which its first request carries.
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
from collections import Counter
from pathlib import Path
from types import TracebackType

from tests.walkthrough.nodes import PATIENCE_S, Cluster, combined

_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")
VOTE_KEY = 52


class Proxy:
    """Forwards connections to one controller.  What the nodes in `cut` send is dropped, and not answered."""

    def __init__(self, port: int) -> None:
        self.cut: frozenset[int] = frozenset()
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
        unread = b""
        sender: int | None = None
        with selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ)
            selector.register(server, selectors.EVENT_READ)
            while not self._is_closed:
                for key, _ in selector.select(0.1):
                    data = (client if key.fileobj is client else server).recv(1 << 16)
                    if not data:
                        return
                    if key.fileobj is server:
                        if sender not in self.cut:
                            client.sendall(data)
                        continue
                    unread += data
                    while len(unread) >= 4 and len(unread) >= 4 + (size := _SIZE.unpack_from(unread)[0]):
                        frame, unread = unread[: 4 + size], unread[4 + size :]
                        sender = self._note(frame, sender)
                        if sender not in self.cut:
                            server.sendall(frame)

    def _note(self, frame: bytes, sender: int | None) -> int | None:
        """Counts votes; returns the node that sent this request."""
        api_key, _, _, length = _HEADER.unpack_from(frame, 4)
        start = 4 + _HEADER.size
        number = frame[start : start + max(length, 0)].partition(b"-")[0]
        known = int(number) if number.isdigit() else sender
        if api_key == VOTE_KEY and known is not None:
            self._votes[known] += 1
        return known


class ProxiedControllers:
    """A cluster of combined nodes whose controllers reach each other through proxies."""

    def __init__(self, folder: Path, count: int) -> None:
        self.cluster = Cluster(folder, combined(count))
        self.proxies: dict[int, Proxy] = {}

    def __enter__(self) -> ProxiedControllers:
        for node in self.cluster.nodes.values():
            proxy = self.proxies[node.id] = Proxy(node.controller_port)
            node.advertised_controller_port = proxy.port
            node.options["advertised.listeners"] = (
                f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{proxy.port}"
            )
        try:
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
