"""UnregisterBroker (key 64, version 0): a broker will not come back, forget it (KIP-500)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 64


def handle(broker: Broker, request: UnregisterBrokerRequest, context: RequestContext) -> Promise[Message]:
    check_cluster(broker.authorizer, context, Operation.ALTER)
    return broker.metadata.ask(request, context.api_version, context.principal)
