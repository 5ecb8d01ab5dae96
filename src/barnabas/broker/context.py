"""What the parts of a broker need to know of the broker around them, and no more."""

from __future__ import annotations

from typing import Protocol

from barnabas.config.settings import Settings
from barnabas.metadata.image import Image
from barnabas.runtime.clock import Clock
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
