"""Why what a test waits for does not happen: from the cluster itself, and from what the kit does to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.base.errors import KafkaError
from barnabas.client.explain import Cause, Diagnosis, diagnose
from barnabas.client.explain.gather import gather

if TYPE_CHECKING:
    from barnabas.broker.replicas.hosted_partition import Hosted
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
        cause, end = _why_no_records(topics, name, committed=committed)
    except (KafkaError, TimeoutError) as error:
        return _joined([*interventions, f"the cluster does not answer: {error}"])
    if cause is not None:
        return _joined([cause, *interventions])
    if not interventions:
        return "nothing was written to it" if not found else "no more were written"
    if end is None:
        return _joined([*interventions, "what is in it is not known: a leader does not answer"])
    if not end:
        return _joined([*interventions, "nothing was written to it"])
    return _joined([*interventions, f"it has offsets up to {end}, of which {found} were read"])


def _unconfirmed(topics: Topics, name: str) -> str | None:
    """Of a cluster in this process: records that consumers do not see yet, as too few replicas have them."""
    from barnabas.testing.kit.cluster import Cluster

    if not isinstance(topics, Cluster):
        return None
    brokers = topics.running.nodes.brokers

    def look() -> str | None:
        up = [node.broker.replicas for node in brokers if node.is_up]
        held_back = (_held_back(replica) for each in up for replica in each.of_topics([name]))
        return next(filter(None, held_back), None)

    return topics.running.call(look)


def _held_back(replica: Hosted) -> str | None:
    log = replica.log
    if not replica.is_leader or log is None or log.end_offset <= log.high_watermark:
        return None
    return (
        f"{replica.topic}-{replica.index} has records from offset {log.high_watermark} on that too few "
        f"replicas have: its ISR is {sorted(replica.isr)} of {sorted(replica.replicas)}, and "
        f"min.insync.replicas={replica.min_isr}"
    )


def _why_no_records(topics: Topics, name: str, *, committed: bool) -> tuple[str | None, int | None]:
    """The cause, if there is one, and the end offsets of all partitions together, if they are known."""
    from barnabas.client import TopicPartition
    from barnabas.client.admin.records import IsolationLevel, OffsetSpec

    admin = topics.admin
    described = admin.describe_topics([name])
    if described.error_of(name) is not None:
        return f"there is no topic {name}: it was deleted, or never created", None
    places: list[TopicPartition] = []
    for partition in described[name].partitions:
        place = TopicPartition(name, partition.partition)
        if partition.leader is None:
            return f"{place} has no leader: none of its replicas {list(partition.replicas)} is alive", None
        places.append(place)
    specs = dict.fromkeys(places, OffsetSpec.LATEST)
    marks = admin.list_offsets(specs).values_by_key
    end = sum(mark.offset for mark in marks.values()) if len(marks) == len(places) else None
    if committed:
        stable = admin.list_offsets(specs, isolation_level=IsolationLevel.READ_COMMITTED).values_by_key
        for place, mark in marks.items():
            if place in stable and stable[place].offset < mark.offset:
                return (
                    f"an open transaction holds back the records of {place} "
                    f"from offset {stable[place].offset} on"
                ), end
    return _unconfirmed(topics, name), end


def _text(diagnosis: Diagnosis) -> str:
    lines = [diagnosis.summary, *(f"  {line}" for line in diagnosis.evidence)]
    return "\n".join([*lines, *(f"  -> {line}" for line in diagnosis.advice)])


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(texts)
