"""Rules for requests: which ones a fault strikes, what happens to them, and how often it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self

from barnabas.base.errors import ErrorCode
from barnabas.protocol.apis import apis
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.reactor_thread import wait_until
from barnabas.testing.kit.errors import KitError, WaitTimeoutError

ANY_API = "*"
Drop = Literal["before", "after"]


def api_name(given: str) -> str:
    """The API's name as Apache Kafka writes it; raises KitError with those that are near."""
    names = {api.name.lower(): api.name for api in apis().values()}
    name = ANY_API if given == ANY_API else names.get(given.lower().removesuffix("request"))
    if name is None:
        from difflib import get_close_matches

        near = [names[each] for each in get_close_matches(given.lower(), names)]
        raise KitError(
            f"there is no API {given!r}; {f'did you mean {near[0]}?' if near else 'as in Produce'}"
        )
    return name


def error_code(given: str | int | ErrorCode) -> ErrorCode:
    """An error by name or number; raises KitError."""
    try:
        return ErrorCode(given) if isinstance(given, int) else ErrorCode[given.upper()]
    except (KeyError, ValueError):
        from difflib import get_close_matches

        near = get_close_matches(str(given).upper(), [code.name for code in ErrorCode], cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else "as in NOT_LEADER_OR_FOLLOWER"
        raise KitError(f"Kafka has no error {given!r}; {hint}") from None


@dataclass(eq=False)
class Fault:
    """One rule.  Use it as a context manager: it ends with the block.  `hits` counts the requests that it has
    struck."""

    api: str
    error: ErrorCode | None = None
    delay_s: float = 0.0
    drop: Drop | None = None
    throttle_ms: int = 0
    hold: bool = False
    # Answer with the error although the request was carried out.
    after: bool = False
    topic: str | None = None
    partition: int | None = None
    node: int | None = None
    client_id: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    # A follower whose fetches it strikes.
    replica: int | None = None
    where: Callable[[Any], bool] | None = None
    times: int | None = None
    id: int = 0
    hits: int = 0
    # Ends it; given by the cluster that it is for.
    on_remove: Callable[[Fault], None] | None = None
    # Requests that are held until the fault ends.
    held: list[Promise[None]] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Ends the fault; requests that it holds go on."""
        if self.on_remove is not None:
            self.on_remove(self)

    def release(self) -> None:
        """Requests that it holds go on."""
        held, self.held = self.held, []
        for promise in held:
            promise.set(None)

    def struck(self, api: str) -> None:
        self.hits += 1

    def wait(self, hits: int = 1, timeout: float = 10.0) -> Self:
        """Waits until it has struck so often."""
        if not wait_until(lambda: self.hits >= hits, timeout):
            raise WaitTimeoutError(
                f"{self} struck {self.hits} of {hits} times within {timeout:g} s: "
                + ("no such request came" if not self.hits else "no further request came")
            )
        return self

    @property
    def is_spent(self) -> bool:
        """Whether it has struck as often as it may."""
        return self.times is not None and self.hits >= self.times

    @property
    def is_partial(self) -> bool:
        """Whether it strikes some partitions of a request only."""
        return self.topic is not None or self.partition is not None

    def wants(self, topic: str, partition: int | None) -> bool:
        if self.topic is not None and topic != self.topic:
            return False
        return self.partition is None or partition is None or partition == self.partition

    def strikes(self, api: str, node: int, client_id: str, request: Any) -> bool:
        """Whether the request is one of those it is for, but for its partitions."""
        if self.is_spent or (self.api != ANY_API and self.api != api):
            return False
        if self.node is not None and node != self.node:
            return False
        if self.client_id is not None and client_id != self.client_id:
            return False
        if self.group is not None and self.group not in _groups(request):
            return False
        if self.transactional_id is not None and self.transactional_id not in _transactional_ids(request):
            return False
        if self.replica is not None and _replica_of(request) != self.replica:
            return False
        return self.where is None or bool(self.where(request))

    def __str__(self) -> str:
        """As it was asked for."""
        what = []
        if self.error is not None:
            what.append(f"error={self.error.name}")
        if self.drop is not None:
            what.append(f"drop={self.drop}")
        if self.delay_s:
            what.append(f"delay={self.delay_s:g}s")
        if self.hold:
            what.append("hold")
        if self.throttle_ms:
            what.append(f"throttle={self.throttle_ms}ms")
        for name in ("topic", "partition", "node", "client_id", "group", "transactional_id", "times"):
            value = getattr(self, name)
            if value is not None:
                what.append(f"{name}={value}")
        return f"the fault {self.api}({', '.join(what)})"


def _groups(request: Any) -> Iterable[str]:
    group_id = getattr(request, "group_id", None)
    if isinstance(group_id, str):
        yield group_id
    for group in getattr(request, "groups", None) or ():
        yield group if isinstance(group, str) else getattr(group, "group_id", "")
    yield from getattr(request, "groups_names", None) or ()


def _transactional_ids(request: Any) -> Iterable[str]:
    for attribute in ("transactional_id", "v3_and_below_transactional_id"):
        value = getattr(request, attribute, None)
        if isinstance(value, str) and value:
            yield value
    for transaction in getattr(request, "transactions", None) or ():
        yield getattr(transaction, "transactional_id", "")


def _replica_of(request: Any) -> int:
    state = getattr(request, "replica_state", None)
    from_state: int = -1 if state is None else state.replica_id
    plain: int = getattr(request, "replica_id", -1)
    return plain if from_state < 0 else from_state
