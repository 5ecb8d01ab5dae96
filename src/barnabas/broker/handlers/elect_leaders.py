"""ElectLeaders (key 43, versions 0-2): let the preferred, or else any, replica lead partitions (KIP-460).

* No topics means all partitions; those that need no election are left out of the answer then.
* The controller decides; the answer comes when its decision is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.controller_requests import ask_by_partition
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, awaited
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 43
FIRST_WITH_ERROR_OF_ALL = 1


def handle(
    broker: Broker, request: ElectLeadersRequest, context: RequestContext
) -> Steps[ElectLeadersResponse]:
    try:
        check_cluster(broker.authorizer, context, Operation.ALTER)
        if request.topic_partitions is None:
            answer = yield from awaited(broker.metadata.ask(request, context.api_version, context.principal))
            assert isinstance(answer, ElectLeadersResponse)
            return answer
        return (yield from _ask(broker, request, context))
    except KafkaError as error:
        response = refuse(request, error.code, error.message)
        if context.api_version >= FIRST_WITH_ERROR_OF_ALL:
            response.error_code = error.code
        return response


def _ask(
    broker: Broker, request: ElectLeadersRequest, context: RequestContext
) -> Steps[ElectLeadersResponse]:
    def ask_for(some: list[ElectLeadersRequest.TopicPartitions]) -> ElectLeadersRequest:
        return ElectLeadersRequest(
            election_type=request.election_type, topic_partitions=some, timeout_ms=request.timeout_ms
        )

    response: ElectLeadersResponse = yield from ask_by_partition(
        broker,
        context,
        request.topic_partitions or (),
        ask_for,
        partitions="partitions",
        results="replica_election_results",
        partition_results="partition_result",
    )
    return response


def refuse(request: ElectLeadersRequest, code: ErrorCode, message: str) -> ElectLeadersResponse:
    """Every partition gets the error; version 0 has no place for one of the answer as a whole."""
    results = [
        ElectLeadersResponse.ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                ElectLeadersResponse.PartitionResult(
                    partition_id=index, error_code=code, error_message=message
                )
                for index in topic.partitions
            ],
        )
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(throttle_time_ms=0, replica_election_results=results)
