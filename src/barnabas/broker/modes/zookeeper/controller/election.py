"""The election of the controller: who creates /controller is it, the others watch it (KIP-631's predecessor).

The winner writes the next /controller_epoch in the same transaction; every later write of a controller checks
the version of that znode, so that a deposed controller can change nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from barnabas.base.units import NS_PER_MS
from barnabas.broker.modes.zookeeper.controller.transactions import Epoch
from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.broker.modes.zookeeper.znodes.cluster import (
    INITIAL_CONTROLLER_EPOCH,
    ControllerRegistration,
    decode_controller,
    decode_controller_epoch,
    encode_controller_epoch,
)
from barnabas.broker.modes.zookeeper.znodes.json_data import MalformedZnodeError
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.zookeeper.client import (
    Create,
    SetData,
    WatchEvent,
    Znode,
    ZooKeeperClient,
    ZooKeeperCode,
    ZooKeeperError,
)

logger = logging.getLogger(__name__)

NO_CONTROLLER = -1
# How soon a failed attempt is repeated; nothing but a connection or a malformed znode makes one fail.
RETRY_MS = 200


class Election:
    """Takes part in elections between `start` and `stop`.

    `won` is called with the epoch of a victory, and `known` with the broker that is the controller, -1 if
    there is none for the moment.
    """

    def __init__(
        self,
        client: ZooKeeperClient,
        broker_id: int,
        *,
        clock: Clock,
        timers: TimerService,
        won: Callable[[Epoch], None],
        known: Callable[[int], None],
    ) -> None:
        self._client = client
        self._broker_id = broker_id
        self._clock = clock
        self._timers = timers
        self._won = won
        self._known = known
        # Answers and watches of an earlier start are ignored.
        self._generation = 0
        self._is_running = False
        self._is_reading = False
        self._has_changed = False

    def start(self) -> None:
        """In a new session, or when this node is not sure any more who is the controller."""
        self.stop()
        self._is_running = True
        self._read()

    def stop(self) -> None:
        self._is_running = False
        self._is_reading = self._has_changed = False
        self._generation += 1
        self._timers.cancel((self, "retry"))

    def _read(self) -> None:
        """One reading at a time; a change in between is read afterwards."""
        if self._is_reading:
            self._has_changed = True
            return
        self._is_reading = True
        generation = self._generation

        def synced(_: object) -> None:
            if generation == self._generation:
                self._client.get(paths.CONTROLLER, self._watched(generation)).then(
                    lambda znode: self._when(generation, lambda: self._found(znode)), failed
                )

        def failed(error: BaseException) -> None:
            self._when(generation, lambda: self._retry(error))

        self._client.sync(paths.CONTROLLER).then(synced, failed)

    def _watched(self, generation: int) -> Callable[[WatchEvent], None]:
        return lambda event: self._when(generation, self._read)

    def _when(self, generation: int, action: Callable[[], None]) -> None:
        if generation == self._generation and self._is_running:
            action()

    def _done(self) -> None:
        self._is_reading = False
        if self._has_changed:
            self._has_changed = False
            self._read()

    def _retry(self, error: BaseException) -> None:
        logger.warning("the controller election failed, it is repeated: %s", error)
        self._is_reading = self._has_changed = False
        deadline_ns = self._clock.monotonic_ns() + RETRY_MS * NS_PER_MS
        self._timers.set((self, "retry"), deadline_ns, self._read)

    # What /controller says

    def _found(self, znode: Znode | None) -> None:
        if znode is None:
            self._known(NO_CONTROLLER)
            self._read_epoch(self._stand)
            return
        try:
            registration = decode_controller(paths.CONTROLLER, znode.data)
        except MalformedZnodeError as error:
            # Its session ends some day, or somebody mends it.
            logger.error("%s; it is left alone", error)
            self._done()
            return
        if znode.stat.ephemeral_owner == self._client.session_id:
            # Won before, also if the answer to that was lost (KAFKA-13407).
            self._read_epoch(self._take_over)
            return
        self._known(registration.broker_id)
        self._done()

    def _read_epoch(self, then: Callable[[Epoch], None]) -> None:
        generation = self._generation

        def read(znode: Znode | None) -> None:
            if znode is None:
                first = encode_controller_epoch(INITIAL_CONTROLLER_EPOCH)
                self._client.create(paths.CONTROLLER_EPOCH, first).then(lambda _: again(), exists)
                return
            try:
                number = decode_controller_epoch(paths.CONTROLLER_EPOCH, znode.data)
            except MalformedZnodeError as error:
                self._retry(error)
                return
            then(Epoch(number, znode.stat.version))

        def exists(error: BaseException) -> None:
            if isinstance(error, ZooKeeperError) and error.code is ZooKeeperCode.NODE_EXISTS:
                again()
            else:
                self._when(generation, lambda: self._retry(error))

        def again() -> None:
            self._when(generation, lambda: self._read_epoch(then))

        self._client.get(paths.CONTROLLER_EPOCH).then(
            lambda znode: self._when(generation, lambda: read(znode)),
            lambda error: self._when(generation, lambda: self._retry(error)),
        )

    def _take_over(self, epoch: Epoch) -> None:
        self._done()
        self._known(self._broker_id)
        self._won(epoch)

    def _stand(self, last: Epoch) -> None:
        """The next epoch, and /controller, or neither."""
        generation = self._generation
        registration = ControllerRegistration(self._broker_id, self._clock.wall_ms())
        epoch = Epoch(last.number + 1, last.version + 1)

        def failed(error: BaseException) -> None:
            codes = (ZooKeeperCode.NODE_EXISTS, ZooKeeperCode.BAD_VERSION)
            if isinstance(error, ZooKeeperError) and error.code in codes:
                # Another one was faster, or it was this node and the answer was lost: read who it is.
                self._has_changed = True
                self._done()
            else:
                self._retry(error)

        self._client.transact(
            [
                Create(paths.CONTROLLER, registration.encode(), ephemeral=True),
                SetData(paths.CONTROLLER_EPOCH, encode_controller_epoch(epoch.number), last.version),
            ]
        ).then(
            lambda _: self._when(generation, lambda: self._take_over(epoch)),
            lambda error: self._when(generation, lambda: failed(error)),
        )
