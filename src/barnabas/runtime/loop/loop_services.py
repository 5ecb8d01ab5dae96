"""What the running asyncio loop offers to a client: clock, randomness, network and names.

Also calls that block, for coroutines.

A loop of the operating system offers the real ones; the loop of a simulated machine has its own, as an
attribute (`simulated.event_loop`), so that a client runs there unchanged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar, cast

from barnabas.runtime.clock import SystemClock
from barnabas.runtime.network.asyncio_network import AsyncioNetwork, ClientSocketOptions
from barnabas.runtime.network.network import StreamHandler
from barnabas.runtime.network.resolver import Resolver, SystemResolver
from barnabas.runtime.random import Random, SystemRandom

P = ParamSpec("P")
T = TypeVar("T")

ATTRIBUTE = "barnabas_services"


class ClientClock(Protocol):
    """The clock of a client, which reads the time for every record."""

    def wall_ms(self) -> int: ...

    def wall_ns(self) -> int: ...

    def monotonic_ns(self) -> int: ...


class ClientNetwork(Protocol):
    """The connecting half of a network; the returned function cancels the attempt."""

    def connect(
        self, host: str, port: int, handler: StreamHandler, options: ClientSocketOptions | None = None
    ) -> Callable[[], object]: ...


class LoopServices(Protocol):
    """What a client needs of the world around it."""

    @property
    def clock(self) -> ClientClock: ...

    @property
    def random(self) -> Random: ...

    @property
    def resolver(self) -> Resolver: ...

    def make_network(self) -> ClientNetwork: ...


class RealServices:
    """Those of the operating system."""

    def __init__(self) -> None:
        self.clock: ClientClock = SystemClock()
        self.random: Random = SystemRandom()
        self.resolver: Resolver = SystemResolver()

    def make_network(self) -> ClientNetwork:
        return AsyncioNetwork()


_REAL = RealServices()


def loop_services() -> LoopServices:
    """Those of the running loop."""
    return cast("LoopServices", getattr(asyncio.get_running_loop(), ATTRIBUTE, _REAL))


async def off_loop(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a call that blocks, once a thread has it; the loop goes on meanwhile."""
    return await asyncio.to_thread(call, *args, **kwargs)
