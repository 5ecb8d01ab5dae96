"""UpdateRaftVoter (key 82, version 0): a voter reports its endpoints and versions to the leader (KIP-853)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.modes.kraft.quorum.responses import encode_update_voter
from barnabas.broker.modes.kraft.quorum.serving import serve
from barnabas.broker.network.request_context import RequestContext
from barnabas.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 82


def handle(broker: Broker, request: UpdateRaftVoterRequest, context: RequestContext) -> Promise[Message]:
    return serve(broker, request, context, encode_update_voter)
