"""The broker's ephemeral znode: registered, waited for, and registered again in a new session.

The epoch of a broker is the czxid of its znode (KIP-380).  Apache Kafka's broker dies if the znode of its
last process is still there; this one knows its own addresses in it, and waits for the end of that session.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from barnabas.base.units import NS_PER_MS
from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.broker.modes.zookeeper.znodes.broker_ids import BrokerRegistration, decode_broker
from barnabas.broker.modes.zookeeper.znodes.json_data import MalformedZnodeError
from barnabas.broker.network.request_steps import Steps, awaited
from barnabas.config.errors import ConfigError
from barnabas.metadata.cluster import Endpoint
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.zookeeper.client import (
    Create,
    SetData,
    Stat,
    WatchEvent,
    ZooKeeperClient,
    ZooKeeperCode,
    ZooKeeperError,
)

logger = logging.getLogger(__name__)

# An old session may have been granted more time than this one asks for.
SESSIONS_TO_WAIT = 3


class Registration:
    """The registration of one broker."""

    def __init__(
        self,
        client: ZooKeeperClient,
        broker_id: int,
        endpoints: Sequence[Endpoint],
        rack: str | None,
        clock: Clock,
        timers: TimerService,
    ) -> None:
        self._client = client
        self._broker_id = broker_id
        self._endpoints = tuple(endpoints)
        self._rack = rack
        self._clock = clock
        self._timers = timers
        self._path = paths.broker(broker_id)

    def register(self) -> Steps[int]:
        """Returns the broker's epoch, once no earlier session of it is left."""
        deadline_ns = self._clock.monotonic_ns() + (
            SESSIONS_TO_WAIT * self._client.session_timeout_ms * NS_PER_MS
        )
        is_waiting = False
        while True:
            try:
                return (yield from self._create())
            except ZooKeeperError as error:
                if error.code is not ZooKeeperCode.NODE_EXISTS:
                    raise
            gone: Promise[None] = Promise()
            settle = partial(_settle, gone)
            found = yield from awaited(self._client.get(self._path, settle))
            if found is None:
                continue
            if found.stat.ephemeral_owner == self._client.session_id:
                return found.stat.czxid  # the answer to the creation was lost
            self._check_own(found.data)
            if self._clock.monotonic_ns() >= deadline_ns:
                raise ConfigError(
                    f"the znode {self._path} of an earlier process of this broker is still there; look for "
                    "that process, or remove the znode"
                )
            if not is_waiting:
                is_waiting = True
                logger.info(
                    "the session of the last process of broker %d has not ended; waiting for that, up to its "
                    "timeout",
                    self._broker_id,
                )
            self._timers.set((self, "wait"), deadline_ns, partial(settle, None))
            yield from awaited(gone)
            self._timers.cancel((self, "wait"))

    def _create(self) -> Steps[int]:
        data = BrokerRegistration(
            endpoints=self._endpoints, rack=self._rack, timestamp_ms=self._clock.wall_ms()
        ).encode()
        operations = (Create(self._path, None, ephemeral=True), SetData(self._path, data, 0))
        results = yield from awaited(self._client.transact(operations))
        stat = results[1]
        assert isinstance(stat, Stat), "SetData gives a stat"
        return stat.czxid

    def _check_own(self, data: bytes | None) -> None:
        """Raises if the id is another broker's: nobody else can have bound these addresses."""
        try:
            other = decode_broker(self._path, data)
        except MalformedZnodeError as error:
            raise ConfigError(f"the broker id {self._broker_id} is taken: {error}") from error
        if set(other.endpoints).isdisjoint(self._endpoints):
            places = ", ".join(f"{end.host}:{end.port}" for end in other.endpoints)
            raise ConfigError(
                f"the broker id {self._broker_id} is taken by the broker at {places}; "
                "choose another broker.id"
            )


def _settle(promise: Promise[None], event: WatchEvent | None) -> None:
    if not promise.done:
        promise.set(None)
