"""Requests of other nodes to the controller: registration, heartbeats, ISR changes, producer id blocks.

BrokerRegistration (62), BrokerHeartbeat (63), AlterPartition (56), AllocateProducerIds (67),
ControllerRegistration (70), AssignReplicasToDirs (73).  Served on controller listeners only.  A node needs
CLUSTER_ACTION; the rest is the controller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.authorizer import Operation, check_cluster
from barnabas.broker.requests import Call
from barnabas.protocol.schema import Message
from barnabas.runtime.later import Later

if TYPE_CHECKING:
    from barnabas.broker.server import Broker


def handle(broker: Broker, request: Message, call: Call) -> Later[Message]:
    check_cluster(broker.authorizer, call, Operation.CLUSTER_ACTION)
    return broker.metadata.ask(request, call.api_version, call.principal)
