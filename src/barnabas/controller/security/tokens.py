"""Delegation tokens: created, renewed, expired and removed (KIP-48, KIP-900).

Errors are those of Apache Kafka's DelegationTokenControlManager.
"""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.controller.decision import MAX_RECORDS_PER_BATCH, Context, Decision
from barnabas.controller.state import ControllerState
from barnabas.metadata.levels import DELEGATION_TOKENS_LEVEL
from barnabas.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from barnabas.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from barnabas.protocol.records.metadata import DelegationTokenRecord, RemoveDelegationTokenRecord
from barnabas.protocol.schema import Message
from barnabas.runtime.random import random_uuid
from barnabas.security.delegation_tokens import is_over, may_use, token_hmac

USER_TYPE = "User"
MAX_TOKENS = 100_000
"""The number of tokens that a cluster keeps; each broker has keys for all of them."""

_MAX_LIFETIME = "delegation.token.max.lifetime.ms"
_RENEWED_FOR = "delegation.token.expiry.time.ms"

# Of a response to CreateDelegationToken (KIP-373).
FIRST_WITH_REQUESTER = 3


def create_token(state: ControllerState, request: CreateDelegationTokenRequest, context: Context) -> Decision:
    settings, now_ms = state.options.static, context.wall_ms
    owner = context.principal
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    answer = _created(owner, context.principal if context.version >= FIRST_WITH_REQUESTER else "")
    secret = state.options.token_secret
    if secret is None:
        answer.error_code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    elif state.image.metadata_version < DELEGATION_TOKENS_LEVEL:
        answer.error_code = ErrorCode.UNSUPPORTED_VERSION
    elif any(renewer.principal_type != USER_TYPE for renewer in request.renewers):
        answer.error_code = ErrorCode.INVALID_PRINCIPAL_TYPE
    elif len(state.image.tokens) >= MAX_TOKENS:
        answer.error_code = ErrorCode.POLICY_VIOLATION
    if secret is None or answer.error_code:
        return Decision([], answer)
    lifetime_ms = int(settings[_MAX_LIFETIME])
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    record = DelegationTokenRecord(
        owner=owner,
        requester=context.principal,
        renewers=[f"{each.principal_type}:{each.principal_name}" for each in request.renewers],
        issue_timestamp=now_ms,
        max_timestamp=now_ms + lifetime_ms,
        expiration_timestamp=min(now_ms + lifetime_ms, now_ms + int(settings[_RENEWED_FOR])),
        token_id=str(random_uuid(state.random)),
    )
    answer.issue_timestamp_ms = record.issue_timestamp
    answer.expiry_timestamp_ms = record.expiration_timestamp
    answer.max_timestamp_ms = record.max_timestamp
    answer.token_id = record.token_id
    answer.hmac = token_hmac(secret, record.token_id)
    return Decision([record], answer)


def _created(owner: str, requester: str) -> CreateDelegationTokenResponse:
    owner_type, _, owner_name = owner.partition(":")
    requester_type, _, requester_name = requester.partition(":")
    return CreateDelegationTokenResponse(
        error_code=ErrorCode.NONE,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=0,
        expiry_timestamp_ms=0,
        max_timestamp_ms=0,
        token_id="",
        hmac=b"",
        throttle_time_ms=0,
    )


def renew_token(state: ControllerState, request: RenewDelegationTokenRequest, context: Context) -> Decision:
    def answer(code: ErrorCode, expiry_ms: int = 0) -> RenewDelegationTokenResponse:
        return RenewDelegationTokenResponse(
            error_code=code, expiry_timestamp_ms=expiry_ms, throttle_time_ms=0
        )

    found = _find(state, bytes(request.hmac), context)
    if isinstance(found, ErrorCode):
        return Decision([], answer(found))
    now_ms = context.wall_ms
    if is_over(found, now_ms):
        return Decision([], answer(ErrorCode.DELEGATION_TOKEN_EXPIRED))
    period_ms = int(state.options.static[_RENEWED_FOR])
    if request.renew_period_ms >= 0:
        period_ms = min(period_ms, request.renew_period_ms)
    renewed = _with_end(found, min(found.max_timestamp, now_ms + period_ms))
    return Decision([renewed], answer(ErrorCode.NONE, renewed.expiration_timestamp))


def expire_token(state: ControllerState, request: ExpireDelegationTokenRequest, context: Context) -> Decision:
    def answer(code: ErrorCode, expiry_ms: int = 0) -> ExpireDelegationTokenResponse:
        return ExpireDelegationTokenResponse(
            error_code=code, expiry_timestamp_ms=expiry_ms, throttle_time_ms=0
        )

    found = _find(state, bytes(request.hmac), context)
    if isinstance(found, ErrorCode):
        return Decision([], answer(found))
    now_ms, period_ms = context.wall_ms, request.expiry_time_period_ms
    if period_ms < 0:
        # It ends now, and is gone.
        return Decision(
            [RemoveDelegationTokenRecord(token_id=found.token_id)], answer(ErrorCode.NONE, now_ms)
        )
    if is_over(found, now_ms):
        return Decision([], answer(ErrorCode.DELEGATION_TOKEN_EXPIRED))
    ended = _with_end(found, min(found.max_timestamp, now_ms + period_ms))
    return Decision([ended], answer(ErrorCode.NONE, ended.expiration_timestamp))


def _find(state: ControllerState, presented: bytes, context: Context) -> DelegationTokenRecord | ErrorCode:
    """The token, if the principal may change it."""
    index = state.token_index
    if index is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    if state.image.metadata_version < DELEGATION_TOKENS_LEVEL:
        return ErrorCode.UNSUPPORTED_VERSION
    token = index.find(state.image.tokens, presented)
    if token is None:
        return ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    if not may_use(token, context.principal):
        return ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    return token


def _with_end(token: DelegationTokenRecord, expiry_ms: int) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=expiry_ms,
        token_id=token.token_id,
    )


def remove_over(state: ControllerState, now_ms: int) -> list[Message]:
    """Removes tokens that are over, a batch at a time."""
    over = (token for _, token in sorted(state.image.tokens.items()) if is_over(token, now_ms))
    records: list[Message] = []
    for token in over:
        records.append(RemoveDelegationTokenRecord(token_id=token.token_id))
        if len(records) >= MAX_RECORDS_PER_BATCH:
            break
    return records
