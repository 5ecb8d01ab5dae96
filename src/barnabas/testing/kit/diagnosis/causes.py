"""Why what a test waits for does not happen: from the cluster itself, and from what the kit does to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.base.errors import KafkaError
from barnabas.client.explain import Cause, Diagnosis, diagnose
from barnabas.client.explain.gather import gather

if TYPE_CHECKING:
    from barnabas.client.model import TopicPartition
    from barnabas.testing.kit.topics.topics import Topics

# How long a group is watched, to see whether it moves.
WATCH_MS = 300
# Nothing at all keeps the group from reading: what the kit does to the cluster is more likely the cause.
_UNSPECIFIC = frozenset({Cause.BEHIND, Cause.CAUGHT_UP, Cause.PAUSED, Cause.REBALANCING})


def why_group_is_stuck(topics: Topics, group_id: str, names: Iterable[str] = ()) -> str:
    """The cause in the first line; then what shows it, other causes, and what to do."""
    interventions = topics.interventions()
    try:
        facts = topics.admin.call(lambda admin: gather(admin, group_id, topics=names, watch_ms=WATCH_MS))
    except (KafkaError, TimeoutError) as error:
        return _joined([*interventions, f"the cluster does not answer: {error}"])
    diagnoses = list(diagnose(facts))
    texts = [_text(diagnosis) for diagnosis in diagnoses]
    if interventions and diagnoses[0].cause in _UNSPECIFIC:
        return _joined([*interventions, *texts])
    return _joined([*texts, *interventions])


def why_no_records(topics: Topics, name: str, found: int, *, committed: bool) -> str:
    """Why a topic has no more records than those that were found."""
    interventions = topics.interventions()
    try:
        cause = _why_no_records(topics, name, committed=committed)
    except (KafkaError, TimeoutError) as error:
        return _joined([*interventions, f"the cluster does not answer: {error}"])
    if cause is not None:
        return _joined([cause, *interventions])
    nothing = "nothing was written to it" if not found else "no more were written"
    return _joined([*interventions, nothing]) if interventions else nothing


def _why_no_records(topics: Topics, name: str, *, committed: bool) -> str | None:
    from barnabas.client import TopicPartition
    from barnabas.client.admin.records import IsolationLevel, OffsetSpec

    admin = topics.admin
    described = admin.describe_topics([name])
    error = described.error_of(name)
    if error is not None:
        return f"there is no topic {name}: {error.message}"
    places: list[TopicPartition] = []
    for partition in described[name].partitions:
        place = TopicPartition(name, partition.partition)
        if partition.leader is None:
            return f"{place} has no leader: none of its replicas {list(partition.replicas)} is alive"
        places.append(place)
    specs = dict.fromkeys(places, OffsetSpec.LATEST)
    marks = admin.list_offsets(specs).values_by_key
    if committed:
        stable = admin.list_offsets(specs, isolation_level=IsolationLevel.READ_COMMITTED).values_by_key
        for place, mark in marks.items():
            if place in stable and stable[place].offset < mark.offset:
                return (
                    f"an open transaction holds back the records of {place} "
                    f"from offset {stable[place].offset} on"
                )
    return None


def _text(diagnosis: Diagnosis) -> str:
    lines = [diagnosis.summary, *(f"  {line}" for line in diagnosis.evidence)]
    return "\n".join([*lines, *(f"  -> {line}" for line in diagnosis.advice)])


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(texts)
