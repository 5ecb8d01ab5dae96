"""Requests of other nodes to the controller: registration, heartbeats, ISR changes, producer id blocks.

BrokerRegistration (62), BrokerHeartbeat (63), AlterPartition (56), AllocateProducerIds (67),
ControllerRegistration (70), AssignReplicasToDirs (73).  Served on controller listeners only.  A node needs
CLUSTER_ACTION; the rest is the controller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker


def handle(broker: Broker, request: Message, context: RequestContext) -> Promise[Message]:
    check_cluster(broker.authorizer, context, Operation.CLUSTER_ACTION)
    return broker.metadata.ask(request, context.api_version, context.principal)
