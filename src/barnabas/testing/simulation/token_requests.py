"""Requests for delegation tokens, drawn at random: right ones, and wrong ones that must change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from barnabas.base.principals import OWN_PRINCIPAL
from barnabas.metadata.image import Image
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.random import SeededRandom
from barnabas.security.delegation_tokens import token_hmac

T = TypeVar("T")

SECRET = "of all simulated nodes"
_NO_TOKEN = b"no token"
_HOUR_MS = 3_600_000
# A negative one ends a token at once.
_PERIODS_MS = (-1, 0, 1, 500, _HOUR_MS, 2**40)


class TokenRequests:
    """Draws requests about the tokens of an image; their principal is that of the node."""

    def __init__(self, random: SeededRandom) -> None:
        self._random = random

    def draw(self, image: Image, number: int) -> Message:
        match self._random.integer(0, 4):
            case 0 | 1 | 2:
                return self._creation(f"u{number}")
            case 3:
                return RenewDelegationTokenRequest(
                    hmac=self._hmac(image), renew_period_ms=self._one_of(_PERIODS_MS)
                )
            case _:
                return ExpireDelegationTokenRequest(
                    hmac=self._hmac(image), expiry_time_period_ms=self._one_of(_PERIODS_MS)
                )

    def _one_of(self, choices: Sequence[T]) -> T:
        return choices[self._random.integer(0, len(choices) - 1)]

    def _creation(self, owner: str) -> CreateDelegationTokenRequest:
        own_type, _, own_name = OWN_PRINCIPAL.partition(":")
        renewer = CreateDelegationTokenRequest.CreatableRenewers(
            principal_type=self._one_of((own_type, own_type, own_type, "Group")), principal_name=own_name
        )
        return CreateDelegationTokenRequest(
            owner_principal_type="User",
            owner_principal_name=self._one_of((owner, owner, "")),
            renewers=self._one_of(([renewer], [renewer], [])),
            max_lifetime_ms=self._one_of((-1, -1, 1_000, _HOUR_MS)),
        )

    def _hmac(self, image: Image) -> bytes:
        """Of a token that is there, mostly."""
        tokens = sorted(image.tokens)
        if not tokens or self._random.integer(0, 9) == 0:
            return _NO_TOKEN
        return token_hmac(SECRET.encode(), self._one_of(tokens))
