"""The workers' daemon: acknowledgements are sent at once, and everything else is PySpark's."""

from __future__ import annotations

import socket

import pytest

from barnabas.spark import worker_daemon


def test_every_task_is_acknowledged_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[tuple[object, bool]] = []

    def serve(sock: socket.socket, authenticated: bool) -> int:
        served.append((sock, authenticated))
        return 7

    monkeypatch.setattr(worker_daemon, "_worker", serve)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as sock,
    ):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        assert worker_daemon.worker(sock, True) == 7
        assert served == [(sock, True)]
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 1
