"""A proxy between a client and a server of ZooKeeper that can cut connections and swallow answers."""

from __future__ import annotations

import contextlib
import socket
import threading

HOST = "127.0.0.1"


class CuttingProxy:
    """Passes bytes on between its own port and a server's."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listener = socket.create_server((HOST, 0))
        self.address = f"{HOST}:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        # How many answers come through before one is swallowed; empty if all do.
        self._swallowed_after: list[int] = []
        self._is_refusing = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End all connections; new ones are accepted."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def swallow_answer(self, *passed: int) -> None:
        """The next answer is not passed on: the connection ends instead.

        With numbers: so many are passed on before one is swallowed, and then so many before the next one.
        """
        with self._lock:
            self._swallowed_after = [*passed] or [0]

    def refuse(self) -> None:
        """End all connections, and each new one at once."""
        self._is_refusing = True
        self.cut()

    def accept_again(self) -> None:
        self._is_refusing = False

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._is_refusing:
                client.close()
                continue
            try:
                server = socket.create_connection((HOST, self._server_port))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._pairs.append((client, server))
            for source, target, answers in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pass, args=(source, target, answers), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(1 << 16):
                if answers and self._is_swallowed():
                    break
                target.sendall(part)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()

    def _is_swallowed(self) -> bool:
        with self._lock:
            if not self._swallowed_after:
                return False
            if self._swallowed_after[0] == 0:
                del self._swallowed_after[0]
                return True
            self._swallowed_after[0] -= 1
            return False
