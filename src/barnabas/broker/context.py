"""The broker context: the parts of a broker that its components may use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.config.node.node import Node
from barnabas.config.settings import Settings
from barnabas.metadata.image import Image
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.random import Random


class BrokerContext(Protocol):
    """Settings and image change with every delta, so read them each time."""

    @property
    def settings(self) -> Settings: ...

    @property
    def image(self) -> Image: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def random(self) -> Random: ...


class Channel(Protocol):
    """The channel to the controller."""

    def send_request(self, request: Message, version: int, principal: str) -> Promise[Message]: ...


class ReplicaContext(BrokerContext, Protocol):
    """The context of replicas; the broker epoch may change, too."""

    @property
    def node(self) -> Node: ...

    @property
    def metadata(self) -> Channel: ...

    @property
    def broker_epoch(self) -> int: ...


class Loop(Protocol):
    """The event loop as a broker uses it; see `runtime.loop.reactor.Reactor`."""

    @property
    def timers(self) -> TimerService: ...

    def at_tick_end(self, action: Callable[[], None], /) -> None: ...
