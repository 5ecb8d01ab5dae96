"""DescribeDelegationToken (key 41, versions 1-3): the tokens of the caller and what it may see (KIP-48).

* A token is shown to its owner and its renewers, and to who may DESCRIBE it or DESCRIBE_TOKENS of its owner
  (KIP-373).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.broker.security.delegation_tokens import refusal_of
from barnabas.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from barnabas.protocol.records.metadata import DelegationTokenRecord
from barnabas.security.delegation_tokens import may_use

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 41
FIRST_WITH_REQUESTER = 3
Described = DescribeDelegationTokenResponse.DescribedDelegationToken


def handle(
    broker: Broker, request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    code = refusal_of(broker, context)
    if code is not None:
        return DescribeDelegationTokenResponse(error_code=code, tokens=[], throttle_time_ms=0)
    owners = None
    if request.owners is not None:
        owners = {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}
    tokens = [
        _described(broker, token, context.api_version)
        for _, token in sorted(broker.image.tokens.items())
        if (owners is None or any(may_use(token, owner) for owner in owners))
        and _may_see(broker, context, token)
    ]
    return DescribeDelegationTokenResponse(error_code=ErrorCode.NONE, tokens=tokens, throttle_time_ms=0)


def _may_see(broker: Broker, context: RequestContext, token: DelegationTokenRecord) -> bool:
    allows = broker.authorizer.allows
    return (
        may_use(token, context.principal)
        or allows(context, Operation.DESCRIBE, Resource.DELEGATION_TOKEN, token.token_id, quiet=True)
        or allows(context, Operation.DESCRIBE_TOKENS, Resource.USER, token.owner, quiet=True)
    )


def _described(broker: Broker, token: DelegationTokenRecord, version: int) -> Described:
    owner_type, _, owner_name = token.owner.partition(":")
    requester = token.requester if version >= FIRST_WITH_REQUESTER else ""
    requester_type, _, requester_name = requester.partition(":")
    renewers = [renewer.partition(":") for renewer in token.renewers]
    return Described(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=broker.security.tokens.hmac_of(token.token_id),
        renewers=[
            DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer(
                principal_type=kind, principal_name=name
            )
            for kind, _, name in renewers
        ],
    )
