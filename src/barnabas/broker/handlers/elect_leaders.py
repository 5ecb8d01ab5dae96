"""ElectLeaders (key 43, versions 0-2): preferred and unclean leader elections (KIP-460).

* No topics means all partitions; the response then leaves out those that need no election.
* The controller decides; the response is sent when its decision is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.controller_requests import send_by_partition, send_to_controller
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, awaited
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 43
FIRST_VERSION_WITH_TOP_LEVEL_ERROR = 1


def handle(
    broker: Broker, request: ElectLeadersRequest, context: RequestContext
) -> Steps[ElectLeadersResponse]:
    try:
        check_cluster(broker.authorizer, context, Operation.ALTER)
        if request.topic_partitions is None:
            elected = yield from awaited(send_to_controller(broker, context, request))
            assert isinstance(elected, ElectLeadersResponse)
            return elected
        return (yield from _elect(broker, request, context))
    except KafkaError as error:
        response = refuse(request, error.code, error.message)
        if context.api_version >= FIRST_VERSION_WITH_TOP_LEVEL_ERROR:
            response.error_code = error.code
        return response


def _elect(
    broker: Broker, request: ElectLeadersRequest, context: RequestContext
) -> Steps[ElectLeadersResponse]:
    def request_for(topics: list[ElectLeadersRequest.TopicPartitions]) -> ElectLeadersRequest:
        return ElectLeadersRequest(
            election_type=request.election_type, topic_partitions=topics, timeout_ms=request.timeout_ms
        )

    return (
        yield from send_by_partition(
            broker,
            context,
            request.topic_partitions or (),
            request_for,
            ElectLeadersResponse,
            partitions="partitions",
            results="replica_election_results",
            partition_results="partition_result",
        )
    )


def refuse(request: ElectLeadersRequest, code: ErrorCode, message: str) -> ElectLeadersResponse:
    """Every partition gets the error; version 0 has no top-level error code."""
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
