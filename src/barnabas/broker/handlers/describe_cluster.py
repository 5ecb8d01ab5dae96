"""DescribeCluster (key 60, versions 0-2): the brokers, or the controllers, and the cluster's id (KIP-700).

* On a broker's listener the endpoints are brokers, on a controller's they are controllers; asking for the
  other kind is MISMATCHED_ENDPOINT_TYPE (KIP-919).
* A broker tells everybody; of controllers only those hear who may alter the cluster.
* Fenced brokers are told from version 2 on, if asked for (KIP-1073).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.handlers.metadata import cluster_operations
from barnabas.broker.metadata import cluster_view
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.routes import Role
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 60
BROKERS, CONTROLLERS = 1, 2
_TYPES = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}


def handle(
    broker: Broker, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    here = CONTROLLERS if broker.role_of(context.listener) is Role.CONTROLLER else BROKERS
    if here == CONTROLLERS:
        check_cluster(broker.authorizer, context, Operation.ALTER)
    _check_type(request.endpoint_type, here, context.api_version)
    nodes = _controllers(broker) if here == CONTROLLERS else _brokers(broker, request, context)
    controller = (
        broker.controller_id
        if here == CONTROLLERS
        else cluster_view.shown_controller(broker.image, broker.random)
    )
    response = DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        endpoint_type=here,
        cluster_id=broker.cluster_id,
        controller_id=controller if any(node.broker_id == controller for node in nodes) else -1,
        brokers=nodes,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(broker, context)
    return response


def _check_type(asked: int, here: int, version: int) -> None:
    """Version 0 always asks for brokers, and has no better error to hear."""
    if asked not in _TYPES:
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE if version else ErrorCode.INVALID_REQUEST
        raise KafkaError(code, f"Unsupported endpoint type {asked}")
    if asked != here:
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE if version else ErrorCode.INVALID_REQUEST,
            f"The request was sent to an endpoint of type {_TYPES[here]}, "
            f"but we wanted an endpoint of type {_TYPES[asked]}",
        )


def _brokers(
    broker: Broker, request: DescribeClusterRequest, context: RequestContext
) -> list[DescribeClusterResponse.Broker]:
    image = broker.image
    found = []
    for broker_id in sorted(image.brokers):
        one = image.brokers[broker_id]
        end = one.endpoint(context.listener)
        if end is not None and (request.include_fenced_brokers or not one.fenced):
            found.append(
                DescribeClusterResponse.Broker(
                    broker_id=one.id, host=end.host, port=end.port, rack=one.rack, is_fenced=one.fenced
                )
            )
    return found


def _controllers(broker: Broker) -> list[DescribeClusterResponse.Broker]:
    """As they registered (KIP-919), on the first listener that each of them has."""
    image = broker.image
    return [
        DescribeClusterResponse.Broker(
            broker_id=one.id, host=one.endpoints[0].host, port=one.endpoints[0].port
        )
        for one in (image.controllers[node_id] for node_id in sorted(image.controllers))
        if one.endpoints
    ]
