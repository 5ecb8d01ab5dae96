"""Delegation tokens (KIP-48): create, renew, expire, list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.client.admin.calls import AdminCalls
from barnabas.client.errors.kinds import check
from barnabas.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from barnabas.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from barnabas.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

BROKER_DEFAULT_MS = -1


class Principal(NamedTuple):
    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


@dataclass(frozen=True, slots=True, repr=False)
class DelegationToken:
    """A token; whoever has its `hmac` is its owner to the brokers."""

    token_id: str
    hmac: bytes
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int


class TokenCalls(AdminCalls):
    async def create_delegation_token(
        self,
        *,
        owner: Principal | None = None,
        renewers: Iterable[Principal] = (),
        max_lifetime_ms: int = BROKER_DEFAULT_MS,
        timeout_ms: int | None = None,
    ) -> DelegationToken:
        """A token for the caller, or for another owner."""
        allowed = tuple(renewers)
        request = CreateDelegationTokenRequest(
            renewers=[
                CreateDelegationTokenRequest.CreatableRenewers(
                    principal_type=one.type, principal_name=one.name
                )
                for one in allowed
            ],
            max_lifetime_ms=max_lifetime_ms,
        )
        if owner is not None:
            request.owner_principal_type, request.owner_principal_name = owner.type, owner.name
        answer = await self._ask_controller(
            request, CreateDelegationTokenResponse, timeout_ms, lambda found: check(found.error_code)
        )
        return DelegationToken(
            answer.token_id,
            answer.hmac,
            Principal(answer.principal_type, answer.principal_name),
            Principal(answer.token_requester_principal_type, answer.token_requester_principal_name),
            allowed,
            answer.issue_timestamp_ms,
            answer.expiry_timestamp_ms,
            answer.max_timestamp_ms,
        )

    async def renew_delegation_token(
        self, hmac: bytes, *, period_ms: int = BROKER_DEFAULT_MS, timeout_ms: int | None = None
    ) -> int:
        """Let a token live on; when it ends now."""
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
        answer = await self._ask_controller(
            request, RenewDelegationTokenResponse, timeout_ms, lambda found: check(found.error_code)
        )
        return answer.expiry_timestamp_ms

    async def expire_delegation_token(
        self, hmac: bytes, *, period_ms: int = BROKER_DEFAULT_MS, timeout_ms: int | None = None
    ) -> int:
        """Let a token end at once, or after a period; when it ends now."""
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        answer = await self._ask_controller(
            request, ExpireDelegationTokenResponse, timeout_ms, lambda found: check(found.error_code)
        )
        return answer.expiry_timestamp_ms

    async def describe_delegation_token(
        self, owners: Iterable[Principal] | None = None, *, timeout_ms: int | None = None
    ) -> list[DelegationToken]:
        """The tokens of these owners, or all that the caller may see."""
        named = None
        if owners is not None:
            named = [
                DescribeDelegationTokenRequest.Owner(principal_type=one.type, principal_name=one.name)
                for one in owners
            ]
        request = DescribeDelegationTokenRequest(owners=named)
        answer = await self._ask_any(request, DescribeDelegationTokenResponse, timeout_ms)
        check(answer.error_code)
        return [_token(one) for one in answer.tokens]


def _token(told: DescribeDelegationTokenResponse.DescribedDelegationToken) -> DelegationToken:
    return DelegationToken(
        told.token_id,
        told.hmac,
        Principal(told.principal_type, told.principal_name),
        Principal(told.token_requester_principal_type, told.token_requester_principal_name),
        tuple(Principal(one.principal_type, one.principal_name) for one in told.renewers),
        told.issue_timestamp,
        told.expiry_timestamp,
        told.max_timestamp,
    )
