"""Look-ups of many groups or transactional ids in their coordinators, in chunks.

A query costs a shard the same for one id and for a hundred, so the ids of one shard are looked up together.
A chunk is small enough not to hold the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

from barnabas.base.errors import KafkaError
from barnabas.broker.coordinators.group_requests import recover
from barnabas.broker.coordinators.shards import Shards
from barnabas.broker.network.request_steps import Steps, awaited, chunks
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.shard import Machine
from barnabas.runtime.loop.promise import Promise

M = TypeVar("M", bound=Machine)
R = TypeVar("R")

# Decides about these ids.  It may leave out ids at the end, if the first ones were enough work: those are
# looked up again.
DecideChunk: TypeAlias = Callable[[M, Context, Sequence[str]], Decision[dict[str, R]]]


def look_up(
    shards: Shards[M], ids: Iterable[str], decide: DecideChunk[M, R], refused: Callable[[str, KafkaError], R]
) -> Steps[dict[str, R]]:
    """Returns the result of each id; `refused` makes those of a shard that is not served here."""
    by_partition: dict[int, list[str]] = {}
    for chunk in chunks(list(ids)):
        for key in chunk:
            by_partition.setdefault(shards.partition_for(key), []).append(key)
        yield None
    pending: list[tuple[int, Sequence[str], Promise[dict[str, R]]]] = []
    for index, keys in by_partition.items():
        for chunk in chunks(keys):
            pending.append((index, chunk, _look_up_chunk(shards, index, chunk, decide, refused)))
            yield None
    results: dict[str, R] = {}
    for index, chunk, promise in pending:
        results.update((yield from awaited(promise)))
        while remaining := [key for key in chunk if key not in results]:
            results.update((yield from awaited(_look_up_chunk(shards, index, remaining, decide, refused))))
            yield None
    return results


def _look_up_chunk(
    shards: Shards[M],
    index: int,
    ids: Sequence[str],
    decide: DecideChunk[M, R],
    refused: Callable[[str, KafkaError], R],
) -> Promise[dict[str, R]]:
    promise = shards.submit_to_partition(index, lambda machine, context: decide(machine, context, ids))
    return recover(promise, lambda error: {key: refused(key, error) for key in ids})
