"""What the options of a node ask of its sockets.

Apache Kafka's own server.properties names the default sizes of the buffers, so only another value tells that
somebody chose it; the system's choice is better than those defaults, and a longer queue at the door does no
harm.
"""

from __future__ import annotations

from barnabas.config import BROKER
from barnabas.config.settings import Settings
from barnabas.runtime.network.network import NetworkLimits

_SYSTEM_CHOOSES = -1
# What requests that are still arriving may take of memory where queued.max.request.bytes does not say it:
# Apache Kafka has no bound then, and twenty halves of large requests took two gigabytes.
MAX_RECEIVING_BYTES = 128 << 20
# What answers that clients do not read may take, all together.
MAX_ALL_QUEUED_BYTES = 512 << 20


def network_limits(settings: Settings) -> NetworkLimits:
    """The limits of a node's network."""
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
    """The value unless it is the default or leaves the choice to the system."""
    value: int = settings[name]
    return None if value in (BROKER.defaults()[name], _SYSTEM_CHOOSES) else value
