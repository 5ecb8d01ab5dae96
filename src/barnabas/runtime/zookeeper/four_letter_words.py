"""The commands of four letters that a ZooKeeper server answers on its client port."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass

SOCKET_TIMEOUT_S = 5.0
ANSWER_BYTES_MAX = 1 << 20
_MODE = re.compile(r"^Mode: (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ServerState:
    """What `srvr` tells: "leader", "follower", "observer" or "standalone"."""

    mode: str
    text: str


def ask(host: str, port: int, word: str, timeout_s: float = SOCKET_TIMEOUT_S) -> str:
    """The answer to a command; OSError if the server cannot be asked."""
    with socket.create_connection((host, port), timeout_s) as connection:
        connection.sendall(word.encode("ascii"))
        connection.shutdown(socket.SHUT_WR)
        answer = bytearray()
        while len(answer) < ANSWER_BYTES_MAX and (part := connection.recv(1 << 16)):
            answer += part
    return answer.decode("utf-8", "replace")


def server_state(host: str, port: int, timeout_s: float = SOCKET_TIMEOUT_S) -> ServerState | None:
    """The state of a server that serves; None of one that does not run, or has no quorum."""
    try:
        text = ask(host, port, "srvr", timeout_s)
    except OSError:
        return None
    found = _MODE.search(text)
    return None if found is None else ServerState(found.group(1), text)
