"""Who leads: after brokers come and go, on request, and to bring leadership back to the preferred replicas.

What lives here: which partitions change, and ElectLeaders.  What may not: how one changes (partition_change).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.decision import NO_FAULT, Context, Decision, Fault
from barnabas.controller.replication.partition_change import Election, PartitionChange
from barnabas.controller.state import ControllerState
from barnabas.metadata.topics import NO_LEADER, Partition, Topic
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.protocol.schema import Message

# Elections of one round of balancing, or of looking for unclean leaders; the rest waits for the next round.
MAX_ELECTIONS_PER_ROUND = 1_000
NO_BROKER = -1
_KINDS = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def updates_after(
    state: ControllerState,
    partitions: Iterable[tuple[Topic, int, Partition]],
    *,
    leaving: int = NO_BROKER,
    arriving: int = NO_BROKER,
    unclean: int = NO_BROKER,
) -> list[Message]:
    """What becomes of these partitions when a broker leaves, arrives, or has lost what it did not sync."""

    def may_lead(replica: int) -> bool:
        if replica in (leaving, unclean):
            return False
        return replica == arriving or state.is_active(replica)

    records: list[Message] = []
    for topic, number, partition in partitions:
        change = PartitionChange(state, topic, number, partition, may_lead=may_lead)
        if state.allows_unclean_election(topic.name):
            change.election = Election.UNCLEAN
        if unclean != NO_BROKER:
            change.unclean_shutdown = unclean
        change.isr = [replica for replica in partition.isr if replica not in (leaving, unclean)]
        record = change.build()
        if record is not None:
            records.append(record)
    return records


def elect_leaders(state: ControllerState, request: ElectLeadersRequest, context: Context) -> Decision:
    """ElectLeaders (KIP-460): for the partitions named, or for all that need it."""
    election = _KINDS.get(request.election_type)
    if election is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    records: list[Message] = []
    results = []
    if request.topic_partitions is None:
        for name in sorted(state.image.topic_ids):
            numbers = sorted(state.image.topics[state.image.topic_ids[name]].partitions)
            outcome = _elect_in(state, name, numbers, election, records)
            outcome.partition_result = [
                one for one in outcome.partition_result if one.error_code != ErrorCode.ELECTION_NOT_NEEDED
            ]
            results.append(outcome)
    else:
        for asked in request.topic_partitions:
            results.append(_elect_in(state, asked.topic, asked.partitions, election, records))
    reply = ElectLeadersResponse(throttle_time_ms=0, error_code=0, replica_election_results=results)
    return Decision(records, reply, atomic=False)


def _elect_in(
    state: ControllerState, topic: str, numbers: Iterable[int], election: Election, records: list[Message]
) -> ElectLeadersResponse.ReplicaElectionResult:
    results = []
    for number in numbers:
        fault = elect(state, topic, number, election, records)
        results.append(
            ElectLeadersResponse.PartitionResult(
                partition_id=number, error_code=fault.code, error_message=fault.message
            )
        )
    return ElectLeadersResponse.ReplicaElectionResult(topic=topic, partition_result=results)


def elect(
    state: ControllerState, name: str, number: int, election: Election, records: list[Message]
) -> Fault:
    """One partition; its record is added, or the reason why there is none is given."""
    topic = state.image.topic_named(name)
    if topic is None:
        return Fault(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(number)
    if partition is None:
        return Fault(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}")
    if election is Election.PREFERRED:
        needed = partition.leader != partition.replicas[0]
        unavailable = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        needed = partition.leader == NO_LEADER
        unavailable = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if not needed:
        return Fault.general(ErrorCode.ELECTION_NOT_NEEDED)
    record = PartitionChange(state, topic, number, partition, election).build()
    if record is None:
        return Fault.general(unavailable)
    records.append(record)
    return NO_FAULT


def balance_leaders(state: ControllerState) -> list[Message]:
    """Give partitions back to their preferred leaders (auto.leader.rebalance.enable)."""
    unbalanced = (found for found in state.partitions() if found[2].leader != found[2].replicas[0])
    changes = (
        PartitionChange(state, topic, number, partition, Election.PREFERRED).build()
        for topic, number, partition in unbalanced
    )
    return list(islice((change for change in changes if change is not None), MAX_ELECTIONS_PER_ROUND))


def elect_unclean_leaders(state: ControllerState) -> list[Message]:
    """For partitions without a leader whose topics would rather lose records than wait."""
    records: list[Message] = []
    for topic, number, _ in state.leaderless():
        if len(records) >= MAX_ELECTIONS_PER_ROUND:
            break
        if state.allows_unclean_election(topic.name):
            elect(state, topic.name, number, Election.UNCLEAN, records)
    return records
