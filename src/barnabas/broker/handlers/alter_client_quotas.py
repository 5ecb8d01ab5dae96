"""AlterClientQuotas (key 49, versions 0-1): set or remove quotas of users, clients, addresses (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ERRORS, ErrorCode
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 49


def handle(broker: Broker, request: AlterClientQuotasRequest, context: RequestContext) -> Promise[Message]:
    check_cluster(broker.authorizer, context, Operation.ALTER_CONFIGS)
    return broker.metadata.ask(request, context.api_version, context.principal)


def refuse(request: AlterClientQuotasRequest, code: ErrorCode, message: str) -> AlterClientQuotasResponse:
    """Every entity gets the error, with its general text."""
    entries = [
        AlterClientQuotasResponse.EntryData(
            error_code=code,
            error_message=ERRORS[code].text,
            entity=[
                AlterClientQuotasResponse.EntityData(
                    entity_type=part.entity_type, entity_name=part.entity_name
                )
                for part in entry.entity
            ],
        )
        for entry in request.entries
    ]
    return AlterClientQuotasResponse(throttle_time_ms=0, entries=entries)
