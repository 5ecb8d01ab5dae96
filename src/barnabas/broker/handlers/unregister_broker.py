"""UnregisterBroker (key 64, version 0): a broker will not come back, forget it (KIP-500)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.authorizer import Operation, check_cluster
from barnabas.broker.requests import Call
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.later import Later

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 64


def handle(broker: Broker, request: UnregisterBrokerRequest, call: Call) -> Later[Message]:
    check_cluster(broker.authorizer, call, Operation.ALTER)
    return broker.metadata.ask(request, call.api_version, call.principal)
