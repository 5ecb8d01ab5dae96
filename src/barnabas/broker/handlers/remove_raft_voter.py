"""RemoveRaftVoter (key 81, version 0): an administrator removes one of the voters (KIP-853).

* A broker forwards it to the active controller; a controller responds itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.routes import Role
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 81


def handle(broker: Broker, request: RemoveRaftVoterRequest, context: RequestContext) -> Promise[Message]:
    check_cluster(broker.authorizer, context, Operation.ALTER)
    if broker.role_of(context.listener) is Role.CONTROLLER:
        return broker.quorum.ask_quorum(request, context.api_version)
    return broker.metadata.send_request(request, context.api_version, context.principal)
