"""The socket options and network limits of a node.

Apache Kafka's own server.properties sets the default buffer sizes, so only another value is a deliberate
choice; the system's choice is better than those defaults, and a longer listen queue does no harm.
"""

from __future__ import annotations

from barnabas.config import BROKER
from barnabas.config.settings import Settings
from barnabas.runtime.network.network import NetworkLimits

_SYSTEM_CHOOSES = -1
# Memory for incomplete requests if queued.max.request.bytes is not set:
# Apache Kafka has no bound then, and twenty halves of large requests took two gigabytes.
MAX_RECEIVING_BYTES = 128 << 20
# Memory for all responses that clients have not read.
MAX_ALL_QUEUED_BYTES = 512 << 20


def network_limits(settings: Settings) -> NetworkLimits:
    """Returns the network limits of a node."""
    usual = NetworkLimits()
    backlog = _chosen(settings, "socket.listen.backlog.size")
    return NetworkLimits(
        listen_backlog=usual.listen_backlog if backlog is None else backlog,
        receive_buffer_bytes=_chosen(settings, "socket.receive.buffer.bytes"),
        send_buffer_bytes=_chosen(settings, "socket.send.buffer.bytes"),
        max_all_queued_bytes=MAX_ALL_QUEUED_BYTES,
        max_receiving_bytes=settings["queued.max.request.bytes"]
        if settings["queued.max.request.bytes"] > 0
        else MAX_RECEIVING_BYTES,
    )


def _chosen(settings: Settings, name: str) -> int | None:
    """Returns the value unless it is the default or leaves the choice to the system."""
    value: int = settings[name]
    return None if value in (BROKER.defaults()[name], _SYSTEM_CHOOSES) else value
