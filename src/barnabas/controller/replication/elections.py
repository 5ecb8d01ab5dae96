"""Leader elections: after broker changes, on request, and to rebalance to the preferred replicas.

Contains the choice of partitions, and ElectLeaders.  The change of one partition belongs in
`partition_change`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.decision import NO_ERROR, ApiError, Context, Decision
from barnabas.controller.replication.partition_change import Election, PartitionChange
from barnabas.controller.state import ControllerState
from barnabas.metadata.topics import NO_LEADER, Partition, Topic
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.protocol.schema import Message

# The maximum number of elections per round of a periodic task; the remaining ones wait for the next round.
MAX_ELECTIONS_PER_ROUND = 1_000
# Partitions that one decision changes when a broker is fenced or stops; the next decision continues.  So a
# broker with thousands of partitions does not hold up heartbeats and requests of the others.
MAX_CHANGES_AT_ONCE = 200
NO_BROKER = -1
_KINDS = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def leader_and_isr_updates(
    state: ControllerState,
    partitions: Iterable[tuple[Topic, int, Partition]],
    *,
    broker_to_remove: int = NO_BROKER,
    broker_to_add: int = NO_BROKER,
    broker_with_unclean_shutdown: int = NO_BROKER,
    at_most: int | None = None,
) -> list[Message]:
    """The records of these partitions after a broker is removed, added, or had an unclean shutdown.

    With `at_most` records, the others are left out.
    """

    # There may be many thousands of partitions, of few brokers and topics.
    acceptable: dict[int, bool] = {}
    options: dict[str, tuple[Election, int]] = {}

    def is_acceptable_leader(replica: int) -> bool:
        is_acceptable = acceptable.get(replica)
        if is_acceptable is None:
            is_removed = replica in (broker_to_remove, broker_with_unclean_shutdown)
            is_acceptable = not is_removed and (replica == broker_to_add or state.is_active(replica))
            acceptable[replica] = is_acceptable
        return is_acceptable

    records: list[Message] = []
    for topic, number, partition in partitions:
        known = options.get(topic.name)
        if known is None:
            is_unclean = state.allows_unclean_election(topic.name)
            known = Election.UNCLEAN if is_unclean else Election.ONLINE, state.min_isr(topic)
            options[topic.name] = known
        change = PartitionChange(state, topic, number, partition, known[0], is_acceptable_leader)
        change.min_isr = known[1]
        if broker_with_unclean_shutdown != NO_BROKER:
            change.unclean_shutdown = broker_with_unclean_shutdown
        change.isr = [
            replica
            for replica in partition.isr
            if replica not in (broker_to_remove, broker_with_unclean_shutdown)
        ]
        record = change.build()
        if record is not None:
            records.append(record)
            if len(records) == at_most:
                break
    return records


def elect_leaders(state: ControllerState, request: ElectLeadersRequest, context: Context) -> Decision:
    """ElectLeaders (KIP-460): for the given partitions, or for all that need an election."""
    election = _KINDS.get(request.election_type)
    if election is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    records: list[Message] = []
    results = []
    if request.topic_partitions is None:
        for name in sorted(state.image.topic_ids):
            numbers = sorted(state.image.topics[state.image.topic_ids[name]].partitions)
            result = _elect_partitions(state, name, numbers, election, records)
            result.partition_result = [
                partition
                for partition in result.partition_result
                if partition.error_code != ErrorCode.ELECTION_NOT_NEEDED
            ]
            results.append(result)
    else:
        for topic in request.topic_partitions:
            results.append(_elect_partitions(state, topic.topic, topic.partitions, election, records))
    reply = ElectLeadersResponse(throttle_time_ms=0, error_code=0, replica_election_results=results)
    return Decision(records, reply, atomic=False)


def _elect_partitions(
    state: ControllerState, topic: str, numbers: Iterable[int], election: Election, records: list[Message]
) -> ElectLeadersResponse.ReplicaElectionResult:
    results = []
    for number in numbers:
        api_error = elect(state, topic, number, election, records)
        results.append(
            ElectLeadersResponse.PartitionResult(
                partition_id=number, error_code=api_error.code, error_message=api_error.message
            )
        )
    return ElectLeadersResponse.ReplicaElectionResult(topic=topic, partition_result=results)


def elect(
    state: ControllerState, name: str, number: int, election: Election, records: list[Message]
) -> ApiError:
    """Elect a leader for one partition; appends its record, or returns why there is none."""
    topic = state.image.topic_named(name)
    if topic is None or name in state.deleting:
        text = state.options.policy.no_topic.format(name=name)
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    partition = topic.partitions.get(number)
    if partition is None:
        text = state.options.policy.no_partition.format(name=name, number=number)
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    if election is Election.PREFERRED:
        needed = partition.leader != partition.replicas[0]
        unavailable = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        needed = partition.leader == NO_LEADER
        unavailable = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if not needed:
        return ApiError.default_for(ErrorCode.ELECTION_NOT_NEEDED)
    record = PartitionChange(state, topic, number, partition, election).build()
    if record is None:
        return ApiError.default_for(unavailable)
    records.append(record)
    return NO_ERROR


def balance_leaders(state: ControllerState) -> list[Message]:
    """Move leadership back to the preferred replicas (auto.leader.rebalance.enable)."""
    changes = (
        PartitionChange(state, topic, number, partition, Election.PREFERRED).build()
        for topic, number, partition in state.imbalanced()
    )
    return list(islice((change for change in changes if change is not None), MAX_ELECTIONS_PER_ROUND))


def elect_unclean_leaders(state: ControllerState) -> list[Message]:
    """Elect leaders for offline partitions of topics that prefer availability over durability."""
    records: list[Message] = []
    for topic, number, _ in state.leaderless():
        if len(records) >= MAX_ELECTIONS_PER_ROUND:
            break
        if state.allows_unclean_election(topic.name):
            elect(state, topic.name, number, Election.UNCLEAN, records)
    return records
