"""EndQuorumEpoch (key 54, versions 0-1): the leader of the metadata quorum resigns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.modes.kraft.quorum.responses import encode_end_quorum_epoch
from barnabas.broker.modes.kraft.quorum.serving import serve
from barnabas.broker.network.request_context import RequestContext
from barnabas.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 54


def handle(broker: Broker, request: EndQuorumEpochRequest, context: RequestContext) -> Promise[Message]:
    return serve(broker, request, context, encode_end_quorum_epoch)
