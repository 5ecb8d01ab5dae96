"""No bytes that a client may send do harm: a hundred thousand mutated requests, and a healthy client meanwhile."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.network.listener import BrokerListener, RequestStream
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.primitives import ProtocolError
from barnabas.testing.hostile.mutated_frames import frames
from tests.broker.test_server import Loop, create
from tests.broker.worlds.front_world import PEER

# A hundred thousand in all; `make fuzz` sends a million over sockets.
FRAMES_PER_LISTENER = 50_000


class Connection:
    """Takes answers; their number is all that matters."""

    reading = True
    is_closed = False

    def __init__(self) -> None:
        self.parts = 0

    def send(self, *parts: Any) -> None:
        self.parts += len(parts)

    def nothing(self, *_: object) -> None: ...

    expect = pause_reading = resume_reading = close = close_when_sent = nothing


def serve(broker_listener: BrokerListener, frame: bytes) -> str:
    """What becomes of a frame: "answered", "waiting" (a long poll), "closed"."""
    stream, connection = RequestStream(broker_listener, PEER), Connection()
    stream.connected(connection)  # type: ignore[arg-type]
    try:
        stream.data_received(memoryview(bytearray(len(frame).to_bytes(4, "big") + frame)))
    except ProtocolError:
        return "closed"
    finally:
        broker_listener.left(stream)
    return "answered" if connection.parts else "waiting"


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
def test_mutated_requests(tmp_path: Path, caplog: pytest.LogCaptureFixture, listener: str) -> None:
    """The real controller decides here: it, too, must stand whatever is asked of it."""
    caplog.set_level(logging.ERROR)
    loop = Loop()
    broker = loop.broker(tmp_path)
    loop.finish(broker.start())
    create(loop.connect(broker), "alpha")
    broker_listener = broker.listeners[listener]
    outcomes: dict[str, int] = {}
    for number, frame in enumerate(frames(list(broker.routes_of(listener).values()), 1, FRAMES_PER_LISTENER)):
        outcome = serve(broker_listener, frame)
        assert not caplog.records, f"{frame.hex()}: {caplog.text}"
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        if number % 500 == 0:
            assert loop.connect(broker).ask(ApiVersionsRequest(), 0).error_code == 0
    assert outcomes["answered"] > FRAMES_PER_LISTENER // 20
    assert outcomes["closed"] > FRAMES_PER_LISTENER // 20
    loop.finish(broker.stop())
    loop.close()
