"""UnregisterBroker (key 64, version 0): a broker will not come back, forget it (KIP-500)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.broker.requests import Call
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.later import Later

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 64


def handle(broker: Broker, request: UnregisterBrokerRequest, call: Call) -> Later[Message]:
    if not broker.authorizer.allows(call, Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return broker.metadata.ask(request, call.api_version, call.principal)
