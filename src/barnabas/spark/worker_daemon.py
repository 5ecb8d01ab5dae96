"""PySpark's daemon, which starts the processes that run Python in tasks, with immediate acknowledgements.

Spark sends a task in several small pieces; the second waits for the acknowledgement of the first (Nagle's
algorithm), which the kernel delays in case there is data to send with it.  Together that costs 40 ms per
task, more than everything else in a small one.
"""

from __future__ import annotations

import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Serve the next task."""
    # Linux resets it whenever something is sent, so it is set for every task.
    if hasattr(socket, "TCP_QUICKACK"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    return _worker(sock, authenticated)


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
