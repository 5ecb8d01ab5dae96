"""DescribeCluster (key 60, versions 0-2): the brokers, or the controllers, and the cluster's id (KIP-700).

* A broker's listener returns brokers, a controller's returns controllers; a request for the other endpoint
  type gets MISMATCHED_ENDPOINT_TYPE (KIP-919).
* On a broker no permission is required; on a controller the client needs ALTER on the cluster.
* From version 2 on fenced brokers are included on request (KIP-1073).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.handlers.metadata import cluster_operations
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
    endpoint_type = CONTROLLERS if broker.role_of(context.listener) is Role.CONTROLLER else BROKERS
    if endpoint_type == CONTROLLERS:
        check_cluster(broker.authorizer, context, Operation.ALTER)
    _check_type(request.endpoint_type, endpoint_type, context.api_version)
    nodes = _controllers(broker) if endpoint_type == CONTROLLERS else _brokers(broker, request, context)
    controller = (
        broker.controller_id if endpoint_type == CONTROLLERS else broker.metadata.controller_for_clients()
    )
    response = DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        endpoint_type=endpoint_type,
        cluster_id=broker.cluster_id,
        controller_id=controller if any(node.broker_id == controller for node in nodes) else -1,
        brokers=nodes,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(broker, context)
    return response


def _check_type(requested: int, actual: int, version: int) -> None:
    """Version 0 always requests brokers, and knows neither of these error codes."""
    if requested not in _TYPES:
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE if version else ErrorCode.INVALID_REQUEST
        raise KafkaError(code, f"Unsupported endpoint type {requested}")
    if requested != actual:
        raise KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE if version else ErrorCode.INVALID_REQUEST,
            f"The request was sent to an endpoint of type {_TYPES[actual]}, "
            f"but we wanted an endpoint of type {_TYPES[requested]}",
        )


def _brokers(
    broker: Broker, request: DescribeClusterRequest, context: RequestContext
) -> list[DescribeClusterResponse.Broker]:
    image = broker.image
    nodes = []
    for broker_id in sorted(image.brokers):
        registration = image.brokers[broker_id]
        endpoint = registration.endpoint(context.listener)
        if endpoint is not None and (request.include_fenced_brokers or not registration.fenced):
            nodes.append(
                DescribeClusterResponse.Broker(
                    broker_id=registration.id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=registration.rack,
                    is_fenced=registration.fenced,
                )
            )
    return nodes


def _controllers(broker: Broker) -> list[DescribeClusterResponse.Broker]:
    """The registered controllers (KIP-919), each with its first listener."""
    image = broker.image
    return [
        DescribeClusterResponse.Broker(
            broker_id=controller.id, host=controller.endpoints[0].host, port=controller.endpoints[0].port
        )
        for controller in (image.controllers[node_id] for node_id in sorted(image.controllers))
        if controller.endpoints
    ]
