"""The broker lifecycle: registration, catching up, unfencing and controlled shutdown.

Contains registration and heartbeats, sent through the controller channel.  What the states mean for the
broker itself belongs in broker/server.py.

The states are Apache Kafka's.  A heartbeat is due 10 ms after the last one while the broker catches up, 50 ms
after the first one of a controlled shutdown, and every broker.heartbeat.interval.ms otherwise.  Failures are
retried with exponential backoff.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Protocol

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.base.principals import OWN_PRINCIPAL
from barnabas.base.units import NS_PER_MS
from barnabas.config.node.listeners import Endpoint
from barnabas.config.settings import Settings
from barnabas.metadata.image import Image
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService

logger = logging.getLogger(__name__)

REGISTRATION_VERSION = 4
HEARTBEAT_VERSION = 1
SECURITY_PROTOCOL_NUMBERS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
CATCHING_UP_MS = 10
FIRST_SHUTDOWN_HEARTBEAT_MS = 50
FIRST_RETRY_MS = 100
# Errors of a heartbeat whose registration was removed or replaced.
_REGISTRATION_LOST = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)


class State(Enum):
    """Apache Kafka's broker states."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class ControllerChannel(Protocol):
    """Sends requests to the controller, and has the committed metadata."""

    @property
    def image(self) -> Image: ...

    def send_request(self, request: Message, version: int, principal: str) -> Promise[Message]: ...


class Lifecycle:
    """The lifecycle of one broker, from start to stop."""

    def __init__(
        self,
        broker_id: int,
        incarnation_id: Uuid,
        settings: Settings,
        channel: ControllerChannel,
        clock: Clock,
        timers: TimerService,
    ) -> None:
        self.state = State.NOT_RUNNING
        self.broker_epoch = -1
        self.caught_up: Promise[None] = Promise()
        self.unfenced: Promise[None] = Promise()
        self.shut_down_allowed: Promise[None] = Promise()
        self._broker_id = broker_id
        self._incarnation_id = incarnation_id
        self._settings = settings
        self._channel = channel
        self._clock = clock
        self._timers = timers
        self._registration: BrokerRegistrationRequest | None = None
        self._is_registered = False
        self._ready_to_unfence = False
        self._in_flight = False
        self._send_at_once = False
        self._retry_ms = FIRST_RETRY_MS
        self._shutdown_requested = False
        self._offline_dirs: list[Uuid] = []

    # Calls of the broker ------------------------------------------------------------------------------------

    def start(
        self,
        cluster_id: str,
        listeners: Sequence[Endpoint],
        features: Mapping[str, tuple[int, int]],
        log_dirs: Sequence[Uuid],
        previous_epoch: int | None,
    ) -> None:
        """Registers; `caught_up` completes when the broker has all earlier metadata."""
        self.state = State.STARTING
        self._registration = BrokerRegistrationRequest(
            broker_id=self._broker_id,
            cluster_id=cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                BrokerRegistrationRequest.Listener(
                    name=endpoint.listener_name,
                    host=endpoint.host or "",
                    port=endpoint.port,
                    security_protocol=SECURITY_PROTOCOL_NUMBERS[endpoint.security_protocol],
                )
                for endpoint in listeners
            ],
            features=[
                BrokerRegistrationRequest.Feature(
                    name=name, min_supported_version=lowest, max_supported_version=highest
                )
                for name, (lowest, highest) in features.items()
            ],
            rack=self._settings["broker.rack"],
            log_dirs=sorted(log_dirs, key=lambda dir_id: (dir_id.most_significant, dir_id.least_significant)),
            previous_broker_epoch=-1 if previous_epoch is None else previous_epoch,
        )
        limit_ms = self._settings["initial.broker.registration.timeout.ms"]
        self._timers.set((self, "registration"), self._after_ns(limit_ms), self._registration_timed_out)
        self._communicate()

    def ready_to_unfence(self) -> Promise[None]:
        """Called when the logs are open and the broker can serve clients.

        Completes when the controller has unfenced the broker, and its own metadata shows that.  A broker that
        accepted clients before would tell the first ones that the cluster has no broker: librdkafka's admin
        client does not ask again, and its call times out.
        """
        self._ready_to_unfence = True
        self._schedule(0)
        return self.unfenced

    def published(self) -> None:
        """Called when metadata has been published, and everything else has taken it."""
        if self.state is State.RUNNING and not self.unfenced.done and self._is_shown_unfenced():
            self.unfenced.set(None)

    def shut_down(self) -> Promise[None]:
        """Starts a controlled shutdown; completes when the controller allows it, at once if not running."""
        if self.state is State.RUNNING:
            self.state = State.PENDING_CONTROLLED_SHUTDOWN
            logger.info("broker %d asks the controller to move its leaderships", self._broker_id)
            self._schedule(0)
        else:
            self.stop()
        return self.shut_down_allowed

    def give_up_shutdown(self, after_ms: int) -> None:
        """Stops although the controller has not allowed it within this time."""
        if self.state is State.PENDING_CONTROLLED_SHUTDOWN:
            logger.warning(
                "broker %d stops without the controller's permission after %d s (%s); other replicas take "
                "over its partitions once its session expires, in broker.session.timeout.ms",
                self._broker_id,
                after_ms // 1_000,
                self._waits_for(),
            )
        self.stop()

    def stop(self) -> None:
        """Stops all heartbeats."""
        self.state = State.SHUTTING_DOWN
        self._timers.cancel((self, "communication"))
        self._timers.cancel((self, "registration"))
        if not self.shut_down_allowed.done:
            self.shut_down_allowed.set(None)

    def dir_failed(self, directory_id: Uuid | None) -> None:
        """Reports an offline log directory with the next heartbeat, which is sent now (KIP-858)."""
        if directory_id is not None and directory_id not in self._offline_dirs:
            self._offline_dirs.append(directory_id)
            if self._is_registered:
                self._schedule(0)

    # Communication ------------------------------------------------------------------------------------------

    def _after_ns(self, delay_ms: int) -> int:
        return self._clock.monotonic_ns() + delay_ms * NS_PER_MS

    def _schedule(self, delay_ms: int) -> None:
        """Schedules the next request.  If one is in flight, an immediate request follows it."""
        if self.state in (State.NOT_RUNNING, State.SHUTTING_DOWN):
            return
        if self._in_flight:
            self._send_at_once = self._send_at_once or delay_ms == 0
            return
        if self._send_at_once:
            self._send_at_once, delay_ms = False, 0
        self._timers.set((self, "communication"), self._after_ns(delay_ms), self._communicate)

    def _communicate(self) -> None:
        if self.state is State.SHUTTING_DOWN or self._in_flight:
            return
        self._in_flight = True
        if not self._is_registered:
            assert self._registration is not None
            self._send(self._registration, REGISTRATION_VERSION, self._registered)
            return
        heartbeat = BrokerHeartbeatRequest(
            broker_id=self._broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._channel.image.offset,
            want_fence=not self._ready_to_unfence,
            want_shut_down=self.state is State.PENDING_CONTROLLED_SHUTDOWN,
            offline_log_dirs=list(self._offline_dirs),
        )
        self._send(heartbeat, HEARTBEAT_VERSION, self._heartbeat_received)

    def _send(self, request: Message, version: int, on_response: Callable[[Message], None]) -> None:
        self._channel.send_request(request, version, OWN_PRINCIPAL).then(on_response, self._failed)

    def _failed(self, error: BaseException) -> None:
        self._in_flight = False
        if self.state is State.SHUTTING_DOWN:
            return
        removed = isinstance(error, KafkaError) and error.code in _REGISTRATION_LOST
        if removed and self.state is State.PENDING_CONTROLLED_SHUTDOWN:
            logger.warning(
                "the registration of broker %d was removed: no leaderships are left to move", self._broker_id
            )
            self.stop()
            return
        request = "heartbeat" if self._is_registered else "registration"
        logger.warning("the %s of broker %d failed: %s", request, self._broker_id, error)
        # A failure is never retried immediately.
        self._send_at_once = False
        delay_ms = self._retry_ms
        self._retry_ms = min(2 * delay_ms, self._settings["broker.session.timeout.ms"])
        self._schedule(delay_ms)

    def _registration_timed_out(self) -> None:
        if not self._is_registered and not self.caught_up.done:
            self.state = State.SHUTTING_DOWN
            self._timers.cancel((self, "communication"))
            self.caught_up.fail(
                KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    "the broker could not register with the controller within "
                    "initial.broker.registration.timeout.ms; see the lines above for the reason",
                )
            )

    def _registered(self, response: Message) -> None:
        assert isinstance(response, BrokerRegistrationResponse)
        if response.error_code:
            self._failed(KafkaError(ErrorCode(response.error_code)))
            return
        self._in_flight = False
        self._timers.cancel((self, "registration"))
        self._retry_ms = FIRST_RETRY_MS
        self._is_registered = True
        self.broker_epoch = response.broker_epoch
        logger.info("registered broker %d with epoch %d", self._broker_id, self.broker_epoch)
        self._schedule(0)

    def _heartbeat_received(self, response: Message) -> None:
        assert isinstance(response, BrokerHeartbeatResponse)
        if response.error_code:
            self._failed(KafkaError(ErrorCode(response.error_code)))
            return
        self._in_flight = False
        self._retry_ms = FIRST_RETRY_MS
        heartbeat_ms = self._settings["broker.heartbeat.interval.ms"]
        match self.state:
            case State.STARTING:
                if response.is_caught_up:
                    self.state = State.RECOVERY
                    self.caught_up.set(None)
                self._schedule(CATCHING_UP_MS)
            case State.RECOVERY:
                if not response.is_fenced:
                    self.state = State.RUNNING
                    logger.info("broker %d is unfenced", self._broker_id)
                    if self._is_shown_unfenced():
                        self.unfenced.set(None)
                self._schedule(heartbeat_ms)
            case State.RUNNING:
                self._schedule(heartbeat_ms)
            case State.PENDING_CONTROLLED_SHUTDOWN:
                if response.should_shut_down:
                    self.stop()
                    return
                if self._shutdown_requested:
                    logger.info("broker %d waits to stop: %s", self._broker_id, self._waits_for())
                self._schedule(heartbeat_ms if self._shutdown_requested else FIRST_SHUTDOWN_HEARTBEAT_MS)
                self._shutdown_requested = True

    def _is_shown_unfenced(self) -> bool:
        """Whether its own metadata shows it unfenced: this process, not an earlier one."""
        broker = self._channel.image.brokers.get(self._broker_id)
        return broker is not None and broker.epoch == self.broker_epoch and not broker.fenced

    def _waits_for(self) -> str:
        """What keeps a controlled shutdown from completing, as far as this broker knows."""
        topics = self._channel.image.topics.values()
        led = sum(
            partition.leader == self._broker_id for topic in topics for partition in topic.partitions.values()
        )
        if led:
            return f"it still leads {led} partition{'s' if led > 1 else ''}"
        return "its leaderships have moved, and the other brokers are to learn of that"
