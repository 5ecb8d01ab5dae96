"""StopReplica (key 5, versions 0-4): the controller stops replicas, or deletes them (ZooKeeper mode).

* Versions before 3 have no leader epochs: they stop a replica in any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.messages.stop_replica import StopReplicaRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 5


def handle(broker: Broker, request: StopReplicaRequest, context: RequestContext) -> Promise[Message]:
    check_cluster(broker.authorizer, context, Operation.CLUSTER_ACTION)
    return broker.zookeeper.controller_request(request)
