"""What a node's options ask of its sockets."""

from __future__ import annotations

import pytest

from barnabas.broker.network.socket_options import network_limits
from barnabas.config import BROKER
from barnabas.runtime.network.network import NetworkLimits

NODE = {"node.id": "1", "process.roles": "broker"}


@pytest.mark.parametrize(
    "given",
    [
        {},
        # As Apache Kafka's own server.properties has it.
        {"socket.receive.buffer.bytes": "102400", "socket.send.buffer.bytes": "102400"},
        {"socket.receive.buffer.bytes": "-1", "socket.send.buffer.bytes": "-1"},
        {"socket.listen.backlog.size": "50"},
    ],
)
def test_the_system_chooses_unless_somebody_did(given: dict[str, str]) -> None:
    assert network_limits(BROKER.parse(NODE | given)) == NetworkLimits()


def test_what_was_chosen_is_asked_for() -> None:
    given = {
        "socket.receive.buffer.bytes": "65536",
        "socket.send.buffer.bytes": "131072",
        "socket.listen.backlog.size": "7",
    }
    limits = network_limits(BROKER.parse(NODE | given))
    assert (limits.receive_buffer_bytes, limits.send_buffer_bytes, limits.listen_backlog) == (
        65536,
        131072,
        7,
    )
