"""Vote (key 52, versions 0-2): a candidate, or a prospective one (KIP-996), asks for this node's vote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.modes.kraft.quorum.responses import encode_vote
from barnabas.broker.modes.kraft.quorum.serving import serve
from barnabas.broker.network.request_context import RequestContext
from barnabas.protocol.messages.vote import VoteRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 52


def handle(broker: Broker, request: VoteRequest, context: RequestContext) -> Promise[Message]:
    return serve(broker, request, context, encode_vote)
