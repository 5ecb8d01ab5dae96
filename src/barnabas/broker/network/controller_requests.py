"""Requests for the controller that may name very much: asked in parts, each of which is decided quickly.

What lives here: cutting a request and joining the answers.  What may not: decisions.

Apache Kafka's controller decides on a thread of its own; ours shares the loop with everybody, so what it is
asked at a time must be little.  The answer has one result for each element, whichever part it was in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import CHUNK_ELEMENTS, Steps, awaited, chunks
from barnabas.controller.decision import MAX_RECORDS_PER_BATCH, too_large
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

Item = TypeVar("Item")
ResponseT = TypeVar("ResponseT", bound=Message)


def check_count(count: int, records_each: int = 1) -> None:
    """Refuse what could not become one batch of the metadata log, before anybody looks at it."""
    if count * records_each > MAX_RECORDS_PER_BATCH:
        raise too_large()


def ask_in_chunks(
    broker: Broker,
    context: RequestContext,
    items: Sequence[Item],
    make: Callable[[list[Item]], Message],
    results: str,
    *,
    version: int | None = None,
) -> Steps[Any]:
    """The controller's answer to the request that `make` gives, asked for a few of the items at a time.

    `results` is the attribute of the response that has a result for each item.
    """
    version = context.api_version if version is None else version
    asked = []
    for some in chunks(items) if items else [[]]:
        asked.append(broker.metadata.ask(make(list(some)), version, context.principal))
        yield None
    whole: Any = None
    for part in asked:
        answer: Any = yield from awaited(part)
        if whole is None:
            whole = answer
        else:
            getattr(whole, results).extend(getattr(answer, results))
    return whole


def ask_by_partition(
    broker: Broker,
    context: RequestContext,
    topics: Sequence[Item],
    make: Callable[[list[Item]], Message],
    *,
    partitions: str,
    results: str,
    partition_results: str,
) -> Steps[Any]:
    """The same for topics that have partitions, which are what is counted: one topic may have very many."""
    asked = []
    for some, continues in split_topics(topics, partitions):
        answer = broker.metadata.ask(make(some), context.api_version, context.principal)
        asked.append((answer, continues))
        yield None
    whole: Any = None
    for part, continues in asked:
        answered: Any = yield from awaited(part)
        if whole is None:
            whole = answered
            continue
        known, more = getattr(whole, results), getattr(answered, results)
        if continues and known and more:
            getattr(known[-1], partition_results).extend(getattr(more[0], partition_results))
            more = more[1:]
        known.extend(more)
    return whole


def split_topics(
    topics: Sequence[Item], partitions: str, size: int = CHUNK_ELEMENTS
) -> Iterator[tuple[list[Item], bool]]:
    """Topics with at most `size` partitions together, and whether the first goes on with the last before."""
    part: list[Item] = []
    count, continues = 0, False
    for topic in topics:
        everything: Sequence[Any] = getattr(topic, partitions)
        start = 0
        while start == 0 or start < len(everything):
            some = everything[start : start + size - count]
            piece: Item = copy(topic)
            setattr(piece, partitions, list(some))
            if not part:
                continues = start > 0
            part.append(piece)
            # A topic without partitions counts too.
            count += max(1, len(some))
            start += max(1, len(some))
            if count >= size:
                yield part, continues
                part, count = [], 0
    if part or not topics:
        yield part, continues
