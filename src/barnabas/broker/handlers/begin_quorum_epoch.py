"""BeginQuorumEpoch (key 53, versions 0-1): the elected leader of the metadata quorum announces itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.modes.kraft.quorum.responses import encode_begin_quorum_epoch
from barnabas.broker.modes.kraft.quorum.serving import serve
from barnabas.broker.network.request_context import RequestContext
from barnabas.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 53


def handle(broker: Broker, request: BeginQuorumEpochRequest, context: RequestContext) -> Promise[Message]:
    return serve(broker, request, context, encode_begin_quorum_epoch)
