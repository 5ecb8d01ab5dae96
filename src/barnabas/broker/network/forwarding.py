"""Requests that the controller decides and the broker only authorizes: one row an API.

A row is an API and the operation on the cluster that its principal needs.  Requests with more to check before
they are forwarded have a handler file; so does whatever must shape an error for each of a request's elements
(its `refuse`).  Everything goes through the controller channel, also where the controller is this node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.network.controller_requests import send_to_controller
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

FORWARDED = {
    # From other nodes, on controller listeners alone.
    "AllocateProducerIds": Operation.CLUSTER_ACTION,
    "AlterPartition": Operation.CLUSTER_ACTION,
    "AssignReplicasToDirs": Operation.CLUSTER_ACTION,
    "BrokerHeartbeat": Operation.CLUSTER_ACTION,
    "BrokerRegistration": Operation.CLUSTER_ACTION,
    "ControlledShutdown": Operation.CLUSTER_ACTION,
    "ControllerRegistration": Operation.CLUSTER_ACTION,
    # From administrators.
    "AlterClientQuotas": Operation.ALTER_CONFIGS,
    "AlterUserScramCredentials": Operation.ALTER,
    "ListPartitionReassignments": Operation.DESCRIBE,
    "UnregisterBroker": Operation.ALTER,
    "UpdateFeatures": Operation.ALTER,
}


def forward(
    operation: Operation, broker: Broker, request: Message, context: RequestContext
) -> Promise[Message]:
    """Authorize the request and hand it to the controller."""
    check_cluster(broker.authorizer, context, operation)
    return send_to_controller(broker, context, request)
