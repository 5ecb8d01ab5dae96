"""The registration of a controller is repeated until the committed metadata has it (KIP-919)."""

from __future__ import annotations

from dataclasses import replace

from immutables import Map

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.broker.modes.kraft.controller_registration import ControllerRegistration
from barnabas.broker.modes.kraft.quorum_setup import registration_request
from barnabas.metadata.cluster import Controller
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.metadata.levels import CONTROLLER_REGISTRATION_LEVEL
from barnabas.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.simulated.world import World

ME = Uuid(b"m" * 16)
OTHER = Uuid(b"o" * 16)


class Registering:
    """A registration whose requests a test answers."""

    def __init__(self) -> None:
        self.world = World(1)
        node = self.world.add_node(1, lambda _: None)
        self.sent: list[Promise[Message]] = []
        self.registration = ControllerRegistration(ME, self._make, self._send, node.clock, node.timers)

    def _make(self) -> ControllerRegistrationRequest:
        return registration_request(1, ME, (), {})

    def _send(self, request: Message, version: int, principal: str) -> Promise[Message]:
        self.sent.append(Promise())
        return self.sent[-1]

    def update(self, incarnation_id: Uuid | None, level: int = CONTROLLER_REGISTRATION_LEVEL) -> int:
        """How many requests were sent in all after an image with this registration."""
        image: Image = replace(EMPTY_IMAGE, features=Map({"metadata.version": level}))
        if incarnation_id is not None:
            controller = Controller(1, incarnation_id, False, (), Map())
            image = replace(image, controllers=Map({1: controller}))
        self.registration.update(image)
        return len(self.sent)


def test_an_old_level_has_no_registrations() -> None:
    assert Registering().update(None, CONTROLLER_REGISTRATION_LEVEL - 1) == 0


def test_a_process_registers_once_and_again_after_another_of_its_id() -> None:
    """Every election wrote a registration, with an id of its own."""
    process = Registering()
    assert process.update(OTHER) == 1
    assert process.update(OTHER) == 1, "one request at a time"
    process.sent[0].set(ControllerRegistrationResponse(throttle_time_ms=0, error_code=0, error_message=None))
    assert process.update(ME) == 1
    assert process.update(OTHER) == 2


def test_a_failed_registration_is_repeated_after_a_pause() -> None:
    """A standby that failed to register at its start never did."""
    process = Registering()
    process.update(None)
    process.sent[0].fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    assert process.update(None) == 1
    process.world.run(200 * NS_PER_MS)
    assert process.update(None) == 2
    refused = ControllerRegistrationResponse(
        throttle_time_ms=0, error_code=ErrorCode.NOT_CONTROLLER, error_message=None
    )
    process.sent[1].set(refused)
    assert process.update(None) == 2
    process.world.run(400 * NS_PER_MS)
    assert process.update(None) == 3


def test_a_process_that_stops_does_not_register() -> None:
    process = Registering()
    process.registration.close()
    assert process.update(None) == 0
