"""PySpark's daemon, which starts the processes that run Python in tasks; those answer at once here.

Spark sends a task in several small pieces and lets the second wait until the first is acknowledged (Nagle's
algorithm), and the kernel delays the acknowledgement, in case there should be data to send with it.  Together
that is 40 ms for every task, more than all else of a small one.
"""

from __future__ import annotations

import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Serve the next task."""
    # Linux forgets it whenever something is sent, so it is said for every task.
    if hasattr(socket, "TCP_QUICKACK"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    return _worker(sock, authenticated)


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
