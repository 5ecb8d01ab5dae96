"""AddRaftVoter (key 80, versions 0 to 1): a controller is added to the voters (KIP-853).

* An administrator sends it, or from version 1 the controller itself, to which the leader responds before the
  change is committed (`controller.quorum.auto.join.enable`).
* A broker forwards it to the active controller; a controller responds itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.routes import Role
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 80


def handle(broker: Broker, request: AddRaftVoterRequest, context: RequestContext) -> Promise[Message]:
    check_cluster(broker.authorizer, context, Operation.ALTER)
    if broker.role_of(context.listener) is Role.CONTROLLER:
        return broker.quorum.ask_quorum(request, context.api_version)
    return broker.metadata.send_request(request, context.api_version, context.principal)
