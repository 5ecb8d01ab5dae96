"""The broker's life in a cluster on ZooKeeper: registered as long as its session lasts.

There are no heartbeats and no fencing: the controller sees the broker's znode.  A controlled shutdown is a
request to the controller, which moves the leaderships before it answers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.base.principals import OWN_PRINCIPAL
from barnabas.base.units import NS_PER_MS
from barnabas.broker.metadata.broker_lifecycle import SECURITY_PROTOCOL_NUMBERS, State
from barnabas.config.node.listeners import Endpoint as Configured
from barnabas.config.settings import Settings
from barnabas.metadata.cluster import Endpoint
from barnabas.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService

logger = logging.getLogger(__name__)

CONTROLLED_SHUTDOWN_VERSION = 3

Register = Callable[[Sequence[Endpoint]], Promise[int]]
SendRequest = Callable[[Message, int, str], Promise[Message]]


class ZooKeeperLifecycle:
    """The `BrokerLifecycle` of ZooKeeper mode."""

    def __init__(self, settings: Settings, clock: Clock, timers: TimerService) -> None:
        self.state = State.NOT_RUNNING
        self.broker_epoch = -1
        self.caught_up: Promise[None] = Promise()
        self.shut_down_allowed: Promise[None] = Promise()
        # Set by the metadata: who registers, who sends, what the broker knows of itself.
        self.register: Register = _unconnected
        self.send_request: SendRequest = _unconnected
        self.is_shown: Callable[[], bool] = lambda: False
        self.announce_failed_dir: Callable[[], None] = _nothing
        self.broker_id = -1
        self._settings = settings
        self._clock = clock
        self._timers = timers
        self._visible: Promise[None] = Promise()
        self._retries_left: int = settings["controlled.shutdown.max.retries"]

    def start(
        self,
        cluster_id: str,
        listeners: Sequence[Configured],
        features: Mapping[str, tuple[int, int]],
        log_dirs: Sequence[Uuid],
        previous_epoch: int | None,
    ) -> None:
        """The options are known already; the broker registers once its logs are open."""
        self.state = State.STARTING
        self._endpoints = [
            Endpoint(
                end.listener_name, end.host or "", end.port, SECURITY_PROTOCOL_NUMBERS[end.security_protocol]
            )
            for end in listeners
        ]
        self.caught_up.set(None)

    def ready_to_unfence(self) -> Promise[None]:
        """Registers.  Completes when a controller has told this broker of itself.

        If there is none yet, because its session has not ended, that is not waited for.
        """
        self.state = State.RECOVERY
        self.register(self._endpoints).then(self._registered, self._visible.fail)
        return self._visible

    def _registered(self, epoch: int) -> None:
        if self.state is State.RECOVERY:
            self.state = State.RUNNING
        limit_ns = self._settings["zookeeper.session.timeout.ms"] * NS_PER_MS
        self._timers.set((self, "visible"), self._clock.monotonic_ns() + limit_ns, self._not_shown)
        self.published()

    def renewed(self, epoch: int) -> None:
        """Registered, for the first time or in a new session."""
        self.broker_epoch = epoch
        logger.info("registered broker %d with epoch %d", self.broker_id, epoch)

    def _not_shown(self) -> None:
        if not self._visible.done:
            logger.warning("no controller has sent its metadata yet; clients see an empty cluster until then")
            self._visible.set(None)

    def published(self) -> None:
        """Called when metadata has been published, and everything else has taken it."""
        if self.state is State.RUNNING and not self._visible.done and self.is_shown():
            self._timers.cancel((self, "visible"))
            self._visible.set(None)

    def dir_failed(self, directory_id: Uuid | None) -> None:
        """The controller asks for every replica then; it is not told which directory has failed."""
        if self.state in (State.RUNNING, State.PENDING_CONTROLLED_SHUTDOWN):
            self.announce_failed_dir()

    # Controlled shutdown

    def shut_down(self) -> Promise[None]:
        if self.state is State.RUNNING:
            self.state = State.PENDING_CONTROLLED_SHUTDOWN
            logger.info("broker %d asks the controller to move its leaderships", self.broker_id)
            self._ask()
        else:
            self.stop()
        return self.shut_down_allowed

    def _ask(self) -> None:
        if self.state is State.PENDING_CONTROLLED_SHUTDOWN:
            request = ControlledShutdownRequest(broker_id=self.broker_id, broker_epoch=self.broker_epoch)
            answer = self.send_request(request, CONTROLLED_SHUTDOWN_VERSION, OWN_PRINCIPAL)
            answer.then(self._answered, self._ask_failed)

    def _answered(self, response: Message) -> None:
        assert isinstance(response, ControlledShutdownResponse)
        if response.error_code == ErrorCode.NONE and not response.remaining_partitions:
            self.stop()
        elif response.error_code == ErrorCode.STALE_BROKER_EPOCH:
            logger.warning("the registration of broker %d was removed: it stops now", self.broker_id)
            self.stop()
        elif response.error_code != ErrorCode.NONE:
            self._ask_again(ErrorCode(response.error_code).name)
        else:
            self._ask_again(f"it still leads {len(response.remaining_partitions)} partitions")

    def _ask_failed(self, error: BaseException) -> None:
        self._ask_again(str(error))

    def _ask_again(self, reason: str) -> None:
        if self.state is not State.PENDING_CONTROLLED_SHUTDOWN:
            return
        if self._retries_left <= 0:
            logger.warning(
                "broker %d stops although its leaderships have not moved: %s; other replicas take over when "
                "its znode is gone",
                self.broker_id,
                reason,
            )
            self.stop()
            return
        self._retries_left -= 1
        logger.info("the controlled shutdown of broker %d is tried again: %s", self.broker_id, reason)
        backoff_ns = self._settings["controlled.shutdown.retry.backoff.ms"] * NS_PER_MS
        self._timers.set((self, "again"), self._clock.monotonic_ns() + backoff_ns, self._ask)

    def give_up_shutdown(self, after_ms: int) -> None:
        if self.state is State.PENDING_CONTROLLED_SHUTDOWN:
            logger.warning(
                "broker %d stops although the controller has not moved its leaderships within %d s",
                self.broker_id,
                after_ms // 1_000,
            )
        self.stop()

    def stop(self) -> None:
        self.state = State.SHUTTING_DOWN
        self._timers.cancel((self, "again"))
        self._timers.cancel((self, "visible"))
        if not self.shut_down_allowed.done:
            self.shut_down_allowed.set(None)


def _unconnected(*_: object) -> Promise[Any]:
    raise AssertionError("the metadata sets this before the broker starts")


def _nothing() -> None:
    """There is nobody to announce it to."""
