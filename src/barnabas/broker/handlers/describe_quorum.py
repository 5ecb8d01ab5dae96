"""DescribeQuorum (key 55, versions 0-2): leader, epoch, voters and observers of the metadata log (KIP-595).

* Last fetch and last caught-up times from version 1 on (KIP-836), directory ids and endpoints from version 2
  on (KIP-853).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 55


def handle(broker: Broker, request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return broker.metadata.describe_quorum(request, context.api_version)
