"""What a node's options ask of its sockets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.broker.network.socket_options import MAX_ALL_QUEUED_BYTES, MAX_RECEIVING_BYTES, network_limits
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
    limits = network_limits(BROKER.parse(NODE | given))
    sockets = replace(
        limits, max_all_queued_bytes=NetworkLimits().max_all_queued_bytes, max_receiving_bytes=2**63 - 1
    )
    assert sockets == NetworkLimits()


def test_what_arrives_is_bounded_also_where_nobody_said_so() -> None:
    """F15: halves of large requests on twenty connections took two gigabytes."""
    assert network_limits(BROKER.parse(NODE)).max_receiving_bytes == MAX_RECEIVING_BYTES == 128 << 20
    given = NODE | {"queued.max.request.bytes": str(200 << 20)}
    assert network_limits(BROKER.parse(given)).max_receiving_bytes == 200 << 20
    assert network_limits(BROKER.parse(NODE)).max_all_queued_bytes == MAX_ALL_QUEUED_BYTES


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
