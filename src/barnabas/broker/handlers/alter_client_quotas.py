"""AlterClientQuotas (key 49, versions 0-1): sets or removes client quotas (KIP-546)."""

from __future__ import annotations

from barnabas.base.errors import ERRORS, ErrorCode
from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse

KEY = 49


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
