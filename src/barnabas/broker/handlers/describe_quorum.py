"""DescribeQuorum (key 55, versions 0-2): leader, epoch, voters and observers of the metadata log (KIP-595).

* Last fetch and last caught-up times from version 1 on (KIP-836), directory ids and endpoints from version 2
  on (KIP-853).
* A broker forwards it to the active controller, as only the leader knows the progress of the others; a
  controller responds itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ERRORS, ErrorCode
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.routes import Role
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 55


def handle(broker: Broker, request: DescribeQuorumRequest, context: RequestContext) -> Promise[Message]:
    check_cluster(broker.authorizer, context, Operation.DESCRIBE)
    if broker.role_of(context.listener) is Role.CONTROLLER:
        return broker.quorum.ask_quorum(request, context.api_version)
    return broker.metadata.send_request(request, context.api_version, context.principal)


def refuse(request: DescribeQuorumRequest, code: ErrorCode, message: str) -> DescribeQuorumResponse:
    """With the text of the code, whatever the reason was, as in Apache Kafka."""
    return DescribeQuorumResponse(error_code=code, error_message=ERRORS[code].text, topics=[], nodes=[])
