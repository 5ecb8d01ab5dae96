"""Delegation tokens (KIP-48): create, renew, expire, list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.client.admin.calls import AdminCalls
from barnabas.client.errors.base import check
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
    """Who owns a token, as `Principal("User", "alice")`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


@dataclass(frozen=True, slots=True, repr=False)
class DelegationToken:
    """A token; brokers treat a client that presents its `hmac` as its owner."""

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
        """Create a token for the caller, or for another owner."""
        allowed = tuple(renewers)
        request = CreateDelegationTokenRequest(
            renewers=[
                CreateDelegationTokenRequest.CreatableRenewers(
                    principal_type=renewer.type, principal_name=renewer.name
                )
                for renewer in allowed
            ],
            max_lifetime_ms=max_lifetime_ms,
        )
        if owner is not None:
            request.owner_principal_type, request.owner_principal_name = owner.type, owner.name
        response = await self._send_to_controller(
            request, CreateDelegationTokenResponse, timeout_ms, lambda result: check(result.error_code)
        )
        return DelegationToken(
            response.token_id,
            response.hmac,
            Principal(response.principal_type, response.principal_name),
            Principal(response.token_requester_principal_type, response.token_requester_principal_name),
            allowed,
            response.issue_timestamp_ms,
            response.expiry_timestamp_ms,
            response.max_timestamp_ms,
        )

    async def renew_delegation_token(
        self, hmac: bytes, *, period_ms: int = BROKER_DEFAULT_MS, timeout_ms: int | None = None
    ) -> int:
        """Extend a token's lifetime; returns its new expiry timestamp."""
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
        response = await self._send_to_controller(
            request, RenewDelegationTokenResponse, timeout_ms, lambda result: check(result.error_code)
        )
        return response.expiry_timestamp_ms

    async def expire_delegation_token(
        self, hmac: bytes, *, period_ms: int = BROKER_DEFAULT_MS, timeout_ms: int | None = None
    ) -> int:
        """Expire a token now, or after a period; returns its new expiry timestamp."""
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        response = await self._send_to_controller(
            request, ExpireDelegationTokenResponse, timeout_ms, lambda result: check(result.error_code)
        )
        return response.expiry_timestamp_ms

    async def describe_delegation_token(
        self, owners: Iterable[Principal] | None = None, *, timeout_ms: int | None = None
    ) -> list[DelegationToken]:
        """Return the tokens of these owners, or all that the caller may see."""
        named = None
        if owners is not None:
            named = [
                DescribeDelegationTokenRequest.Owner(principal_type=owner.type, principal_name=owner.name)
                for owner in owners
            ]
        request = DescribeDelegationTokenRequest(owners=named)
        response = await self._send_to_any(request, DescribeDelegationTokenResponse, timeout_ms)
        check(response.error_code)
        return [_token(token) for token in response.tokens]


def _token(token: DescribeDelegationTokenResponse.DescribedDelegationToken) -> DelegationToken:
    return DelegationToken(
        token.token_id,
        token.hmac,
        Principal(token.principal_type, token.principal_name),
        Principal(token.token_requester_principal_type, token.token_requester_principal_name),
        tuple(Principal(renewer.principal_type, renewer.principal_name) for renewer in token.renewers),
        token.issue_timestamp,
        token.expiry_timestamp,
        token.max_timestamp,
    )
