"""Sends requests to the controller: large ones in chunks, whose responses are merged.

Apache Kafka's controller decides on its own thread; ours shares the event loop, so each decision must be
short.  The merged response has one result for each element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import CHUNK_ELEMENTS, Steps, awaited, chunks
from barnabas.controller.decision import MAX_RECORDS_PER_BATCH, too_large
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker
    from barnabas.metadata.image import Image

Item = TypeVar("Item")
ResponseT = TypeVar("ResponseT", bound=Message)


def check_count(count: int, records_each: int = 1) -> None:
    """Raises if the request cannot become one batch of the metadata log."""
    if count * records_each > MAX_RECORDS_PER_BATCH:
        raise too_large()


def is_for_controller(broker: Broker, context: RequestContext) -> bool:
    """Whether a request came in on a controller listener, where nodes forward those of their clients."""
    return context.listener in broker.node.listeners.controller_names


def check_controller(broker: Broker, context: RequestContext) -> None:
    """On its controller listeners, a node whose controller is not active refuses; it does not forward."""
    if not is_for_controller(broker, context) or broker.metadata.is_active:
        return
    leader_id = broker.controller_id
    where = f"The active controller appears to be node {leader_id}."
    raise KafkaError(
        ErrorCode.NOT_CONTROLLER, where if leader_id >= 0 else "No controller appears to be active."
    )


def send_to_controller(broker: Broker, context: RequestContext, request: Message) -> Promise[Message]:
    """Returns the promise of the active controller's response."""
    check_controller(broker, context)
    return _send(broker, context, request)


def _send(
    broker: Broker, context: RequestContext, request: Message, version: int | None = None
) -> Promise[Message]:
    """A controller that loses its leadership refuses what it has not committed.  A client of this broker does
    not notice: its request goes to the next controller, as if this node had forwarded it before (KIP-590).
    """
    version = context.api_version if version is None else version
    send = partial(
        broker.metadata.send_for_client,
        request,
        version,
        context.principal,
        context.peer.host,
        context.client_id,
    )
    answer = send()
    if is_for_controller(broker, context):
        return answer
    response: Promise[Message] = Promise()

    def failed(error: BaseException) -> None:
        is_deposed = isinstance(error, KafkaError) and error.code is ErrorCode.NOT_CONTROLLER
        if is_deposed and not broker.metadata.is_active:
            send().then(response.set, response.fail)
        else:
            response.fail(error)

    answer.then(response.set, failed)
    return response


def until_shown(broker: Broker, context: RequestContext, is_shown: Callable[[Image], bool]) -> Steps[None]:
    """The controller's response is sent when this broker's own metadata shows what it reports."""
    if not is_for_controller(broker, context):
        yield from awaited(broker.image_waits.until(is_shown, broker.image))


def send_in_chunks(
    broker: Broker,
    context: RequestContext,
    items: Sequence[Item],
    make: Callable[[list[Item]], Message],
    response_type: type[ResponseT],
    results: str,
    *,
    version: int | None = None,
) -> Steps[ResponseT]:
    """Sends the request that `make` builds for a few items at a time; returns the merged response.

    `results` is the attribute of the response that has a result for each item.
    """
    check_controller(broker, context)
    promises = []
    for chunk in chunks(items) if items else [[]]:
        promises.append(_send(broker, context, make(list(chunk)), version))
        yield None
    merged: ResponseT | None = None
    for promise in promises:
        response = yield from awaited(promise)
        assert isinstance(response, response_type)
        if merged is None:
            merged = response
        else:
            getattr(merged, results).extend(getattr(response, results))
            _throttle_longest(merged, response)
    assert merged is not None, "there is at least one request"
    return merged


def _throttle_longest(merged: Any, response: Any) -> None:
    merged.throttle_time_ms = max(merged.throttle_time_ms, response.throttle_time_ms)


def send_by_partition(
    broker: Broker,
    context: RequestContext,
    topics: Sequence[Item],
    make: Callable[[list[Item]], Message],
    response_type: type[ResponseT],
    *,
    partitions: str,
    results: str,
    partition_results: str,
) -> Steps[ResponseT]:
    """Like `send_in_chunks` for topics, in chunks of partitions: one topic may have very many."""
    check_controller(broker, context)
    promises = []
    for chunk, continues in split_topics(topics, partitions):
        promises.append((_send(broker, context, make(chunk)), continues))
        yield None
    merged: ResponseT | None = None
    for promise, continues in promises:
        response = yield from awaited(promise)
        assert isinstance(response, response_type)
        if merged is None:
            merged = response
            continue
        results_so_far, new_results = getattr(merged, results), getattr(response, results)
        if continues and results_so_far and new_results:
            getattr(results_so_far[-1], partition_results).extend(getattr(new_results[0], partition_results))
            new_results = new_results[1:]
        results_so_far.extend(new_results)
    assert merged is not None, "there is at least one request"
    return merged


def split_topics(
    topics: Sequence[Item], partitions: str, size: int = CHUNK_ELEMENTS
) -> Iterator[tuple[list[Item], bool]]:
    """Yields chunks of at most `size` partitions, and whether a chunk continues the last topic."""
    topics_of_chunk: list[Item] = []
    count, continues = 0, False
    for topic in topics:
        all_partitions: Sequence[Any] = getattr(topic, partitions)
        start = 0
        while start == 0 or start < len(all_partitions):
            chunk = all_partitions[start : start + size - count]
            piece = topic
            if len(chunk) < len(all_partitions):
                piece = copy(topic)
                setattr(piece, partitions, list(chunk))
            if not topics_of_chunk:
                continues = start > 0
            topics_of_chunk.append(piece)
            # A topic without partitions counts too.
            count += max(1, len(chunk))
            start += max(1, len(chunk))
            if count >= size:
                yield topics_of_chunk, continues
                topics_of_chunk, count = [], 0
    if topics_of_chunk or not topics:
        yield topics_of_chunk, continues
