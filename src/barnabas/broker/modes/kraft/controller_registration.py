"""Registers this node's controller with the active one (KIP-919), until the committed metadata says so.

A registration can get lost with its connection or with the leader that appended it, and is then repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.base.principals import OWN_PRINCIPAL
from barnabas.base.units import NS_PER_MS
from barnabas.metadata.image import Image
from barnabas.metadata.levels import CONTROLLER_REGISTRATION_LEVEL
from barnabas.protocol.messages.controller_registration import ControllerRegistrationRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService

logger = logging.getLogger(__name__)

VERSION = 0
FIRST_RETRY_MS = 100
MAX_RETRY_MS = 10_000


class ControllerRegistration:
    """The registration of one process."""

    def __init__(
        self,
        incarnation_id: Uuid,
        make_request: Callable[[], ControllerRegistrationRequest],
        send: Callable[[Message, int, str], Promise[Message]],
        clock: Clock,
        timers: TimerService,
    ) -> None:
        self.incarnation_id = incarnation_id
        self._make_request = make_request
        self._send = send
        self._clock = clock
        self._timers = timers
        self._is_in_flight = False
        self._is_waiting = False
        self._is_closed = False
        self._retry_ms = FIRST_RETRY_MS

    def update(self, image: Image) -> None:
        """Called with every image, while there is an active controller; registers if the image lacks it."""
        if self._is_in_flight or self._is_waiting or self._is_closed:
            return
        if image.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
            return
        request = self._make_request()
        known = image.controllers.get(request.controller_id)
        if known is None or known.incarnation_id != self.incarnation_id:
            self._is_in_flight = True
            self._send(request, VERSION, OWN_PRINCIPAL).then(self._responded, self._failed)

    def _responded(self, response: Message) -> None:
        code = getattr(response, "error_code", 0)
        if code:
            self._failed(KafkaError(ErrorCode(code)))
        else:
            self._is_in_flight = False
            self._retry_ms = FIRST_RETRY_MS

    def _failed(self, error: BaseException) -> None:
        """The next image after a pause tries again; the active controller writes one now and then."""
        self._is_in_flight = False
        if self._is_closed:
            return
        logger.warning("the controller could not register: %s", error)
        self._is_waiting = True
        deadline_ns = self._clock.monotonic_ns() + self._retry_ms * NS_PER_MS
        self._retry_ms = min(2 * self._retry_ms, MAX_RETRY_MS)
        self._timers.set((self, "retry"), deadline_ns, self._retry)

    def _retry(self) -> None:
        self._is_waiting = False

    def close(self) -> None:
        self._is_closed = True
        self._timers.cancel((self, "retry"))
