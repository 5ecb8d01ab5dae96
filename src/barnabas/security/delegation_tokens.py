"""Delegation tokens (KIP-48): the secret of a token is the HMAC of its id, and is not in the log.  Pure."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping

from barnabas.metadata.scram import DEFAULT_ITERATIONS, ScramMechanism, credential, salted_password
from barnabas.protocol.records.metadata import DelegationTokenRecord, UserScramCredentialRecord

_DIGEST = "sha512"


def token_hmac(secret: bytes, token_id: str) -> bytes:
    """What a client shows to be the token's holder."""
    return hmac.digest(secret, token_id.encode(), _DIGEST)


def is_over(token: DelegationTokenRecord, now_ms: int) -> bool:
    return token.max_timestamp < now_ms or token.expiration_timestamp < now_ms


def may_use(token: DelegationTokenRecord, principal: str) -> bool:
    """Whether the principal is the owner, the requester's owner, or one of the renewers."""
    return principal == token.owner or principal in token.renewers


def token_keys(
    secret: bytes, token_id: str, mechanism: ScramMechanism, salt: bytes
) -> UserScramCredentialRecord:
    """The keys of a token for SCRAM, in which its HMAC in base64 is the password; takes milliseconds."""
    password = base64.b64encode(token_hmac(secret, token_id)).decode("ascii")
    salted = salted_password(mechanism, password, salt, DEFAULT_ITERATIONS)
    keys = credential(token_id, mechanism, salted, salt, DEFAULT_ITERATIONS)
    return UserScramCredentialRecord(
        name=token_id,
        mechanism=mechanism,
        salt=salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=keys.iterations,
    )


class TokenIndex:
    """Tokens by their HMAC, computed once for each token."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._seen: Mapping[str, DelegationTokenRecord] | None = None
        self._id_by_hmac: dict[bytes, str] = {}

    def find(
        self, tokens: Mapping[str, DelegationTokenRecord], presented: bytes
    ) -> DelegationTokenRecord | None:
        """The token of an image that has this HMAC."""
        if self._seen is not tokens:
            known = {token_id: value for value, token_id in self._id_by_hmac.items()}
            self._id_by_hmac = {
                known.get(token_id) or token_hmac(self._secret, token_id): token_id for token_id in tokens
            }
            self._seen = tokens
        token_id = self._id_by_hmac.get(presented)
        return None if token_id is None else tokens[token_id]
