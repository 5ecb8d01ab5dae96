"""Delegation tokens: who gets, renews and ends them, and until when (KIP-48)."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.controller.decision import Context
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.protocol.schema import Message
from barnabas.security.delegation_tokens import token_hmac
from tests.controller.lab import Lab

MAX_MS, RENEWED_MS, NOW_MS = 100_000, 10_000, 1_700_000_000_000
OPTIONS = {
    "delegation.token.secret.key": "secret",
    "delegation.token.max.lifetime.ms": str(MAX_MS),
    "delegation.token.expiry.time.ms": str(RENEWED_MS),
}
ALICE, BOB, EVE = "User:alice", "User:bob", "User:eve"


class Tokens:
    """A controller, asked by users at times."""

    def __init__(self, release: str = "4.1", **options: Any) -> None:
        self.lab = Lab(release, **options)
        self.now_ms = NOW_MS

    def ask(self, request: Message, user: str) -> Any:
        context = Context(0, self.lab.end_offset, 3, user, self.now_ms)
        decision = self.lab.controller.decide(request, context)
        self.lab.append(list(decision.records))
        return decision.reply

    def create(self, user: str = ALICE, *renewers: str, lifetime_ms: int = -1, owner: str = "") -> Any:
        kind, _, name = owner.partition(":")
        parts = [renewer.partition(":") for renewer in renewers]
        request = CreateDelegationTokenRequest(
            owner_principal_type=kind,
            owner_principal_name=name,
            renewers=[
                CreateDelegationTokenRequest.CreatableRenewers(principal_type=kind, principal_name=name)
                for kind, _, name in parts
            ],
            max_lifetime_ms=lifetime_ms,
        )
        return self.ask(request, user)

    def renew(self, hmac: bytes, user: str = ALICE, period_ms: int = -1) -> tuple[int, int]:
        answer = self.ask(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), user)
        return answer.error_code, answer.expiry_timestamp_ms

    def expire(self, hmac: bytes, user: str = ALICE, period_ms: int = -1) -> tuple[int, int]:
        answer = self.ask(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms), user)
        return answer.error_code, answer.expiry_timestamp_ms


@pytest.fixture
def tokens() -> Tokens:
    return Tokens(**OPTIONS)


def test_a_token_belongs_to_who_asked_for_it_or_to_the_named_owner(tokens: Tokens) -> None:
    first, second = tokens.create(), tokens.create(BOB, owner=ALICE)
    assert first.error_code == 0
    assert first.hmac == token_hmac(b"secret", first.token_id)
    assert len(first.hmac) == 64
    times = (first.issue_timestamp_ms, first.expiry_timestamp_ms, first.max_timestamp_ms)
    assert times == (NOW_MS, NOW_MS + RENEWED_MS, NOW_MS + MAX_MS)
    record = tokens.lab.image.tokens[second.token_id]
    assert (record.owner, record.requester) == (ALICE, BOB)
    assert (second.principal_name, second.token_requester_principal_name) == ("alice", "bob")
    assert first.token_id != second.token_id


@pytest.mark.parametrize(
    ("asked_ms", "expiry_ms", "max_ms"),
    [
        (5_000, 5_000, 5_000),
        (50_000, RENEWED_MS, 50_000),
        (10**12, RENEWED_MS, MAX_MS),
        (0, RENEWED_MS, MAX_MS),
    ],
)
def test_a_life_may_be_shorter(tokens: Tokens, asked_ms: int, expiry_ms: int, max_ms: int) -> None:
    token = tokens.create(lifetime_ms=asked_ms)
    assert (token.expiry_timestamp_ms - NOW_MS, token.max_timestamp_ms - NOW_MS) == (expiry_ms, max_ms)


def test_owners_and_renewers_renew_until_the_latest_end(tokens: Tokens) -> None:
    hmac = tokens.create(ALICE, BOB).hmac
    tokens.now_ms += 5_000
    assert tokens.renew(hmac, BOB) == (0, tokens.now_ms + RENEWED_MS)
    assert tokens.renew(hmac, ALICE, 2_000) == (0, tokens.now_ms + 2_000)
    assert tokens.renew(hmac, EVE) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    assert tokens.renew(b"x" * 64) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)
    tokens.now_ms += 2_000
    for _ in range(20):
        code, expiry_ms = tokens.renew(hmac)
        assert code == 0
        tokens.now_ms = expiry_ms
    assert expiry_ms == NOW_MS + MAX_MS
    tokens.now_ms += 1
    assert tokens.renew(hmac) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0)


def test_a_token_is_ended_now_or_later(tokens: Tokens) -> None:
    hmac, other = tokens.create(ALICE, BOB).hmac, tokens.create().hmac
    assert tokens.expire(hmac, EVE) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    assert tokens.expire(hmac, BOB, 300) == (0, NOW_MS + 300)
    assert tokens.expire(hmac, ALICE, 10**15) == (0, NOW_MS + MAX_MS)
    assert tokens.expire(hmac) == (0, NOW_MS)
    assert tokens.expire(hmac) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)
    assert [token_hmac(b"secret", each) for each in tokens.lab.image.tokens] == [other]


def test_tokens_that_are_over_are_removed(tokens: Tokens) -> None:
    tokens.create()
    kept = tokens.create()
    tokens.now_ms += RENEWED_MS
    assert tokens.lab.controller.remove_over_tokens(tokens.now_ms) == []
    tokens.renew(kept.hmac)
    tokens.lab.append(tokens.lab.controller.remove_over_tokens(tokens.now_ms + 1))
    assert list(tokens.lab.image.tokens) == [kept.token_id]


def test_tokens_need_a_secret_and_a_version() -> None:
    disabled = Tokens()
    assert disabled.create().error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert disabled.renew(b"x") == (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 0)
    assert disabled.expire(b"x") == (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 0)
    old = Tokens("3.5", **OPTIONS)
    assert old.create().error_code == ErrorCode.UNSUPPORTED_VERSION
    assert old.renew(b"x") == (ErrorCode.UNSUPPORTED_VERSION, 0)
    assert Tokens(**OPTIONS).create(ALICE, "Group:g").error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
