"""What the parts of a broker need to know of the broker around them, and no more."""

from __future__ import annotations

from typing import Protocol

from barnabas.config.node.node import Node
from barnabas.config.settings import Settings
from barnabas.metadata.image import Image
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.random import Random


class BrokerContext(Protocol):
    """Settings and image change as deltas come, so they are asked for each time."""

    @property
    def settings(self) -> Settings: ...

    @property
    def image(self) -> Image: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def random(self) -> Random: ...


class Channel(Protocol):
    """The way to the controller."""

    def ask(self, request: Message, version: int, principal: str) -> Promise[Message]: ...


class ReplicaContext(BrokerContext, Protocol):
    """What replicas need to know of their broker beside that; the epoch changes in its life, too."""

    @property
    def node(self) -> Node: ...

    @property
    def metadata(self) -> Channel: ...

    @property
    def broker_epoch(self) -> int: ...
