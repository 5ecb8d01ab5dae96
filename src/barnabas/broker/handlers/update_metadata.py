"""UpdateMetadata (key 6, versions 0-8): the controller tells the state of the cluster (ZooKeeper mode).

* The brokers of the request are all that are alive; its partitions are those that have changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.messages.update_metadata import UpdateMetadataRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 6


def handle(broker: Broker, request: UpdateMetadataRequest, context: RequestContext) -> Promise[Message]:
    check_cluster(broker.authorizer, context, Operation.CLUSTER_ACTION)
    return broker.zookeeper.controller_request(request)
