"""Logins that no client does: tokens with changed bytes, cut, replayed, in another order.

A seed determines one conversation with the login of a connection, without a network.  Whatever is sent, the
login either refuses it, by an answer or by closing the connection, or makes the client who it has shown to
be; and before that no other request is served.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

from barnabas.broker.network.sasl_login import SaslLogin
from barnabas.broker.security.sasl_setup import ListenerSasl
from barnabas.metadata.scram import ScramMechanism, credential, salted_password
from barnabas.protocol.apis import API_VERSIONS_KEY
from barnabas.protocol.frame import SIZE_BYTES, write_request
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.records.metadata import UserScramCredentialRecord
from barnabas.runtime.random import Random, SeededRandom
from barnabas.security.oauth.jwt import OAuthToken, encode_part
from barnabas.security.oauth.validators import UnsecuredValidator
from barnabas.security.sasl import oauthbearer, plain
from barnabas.security.sasl.client import ClientExchange, ClientLogin
from barnabas.security.sasl.exchange import SaslExchange, SaslExchangeError
from barnabas.security.sasl.jaas import JaasEntry
from barnabas.security.sasl.scram import ScramExchange
from barnabas.testing.hostile.mutated_frames import mutated

USER, PASSWORD, WRONG = "alice", "alice-secret", "nothing like it"
PRINCIPAL = f"User:{USER}"
SALT, ITERATIONS = b"salt of a trial", 4096
_SCRAM = {mechanism.mechanism_name: mechanism for mechanism in ScramMechanism}
MECHANISMS = (*_SCRAM, plain.MECHANISM, oauthbearer.MECHANISM)
# A conversation has no more messages.
MAX_MESSAGES = 8
NOW_MS = 1_700_000_000_000


class Fault(Exception):
    """The login did what it must not do."""


class Outcome(NamedTuple):
    """How a conversation ended: `logged in`, `refused`, `closed` or `open`."""

    kind: str
    mechanism: str


def _token(user: str, expires_s: int) -> str:
    claims = f'{{"sub":"{user}","exp":{expires_s}}}'.encode()
    return ".".join([encode_part(b'{"alg":"none"}'), encode_part(claims), ""])


class _Sasl(ListenerSasl):
    """A listener with every mechanism and one user."""

    def __init__(self, random: Random) -> None:
        self.max_receive_bytes = 512 << 10
        self.failure_delay_ms = 0
        self.max_session_ms = dict.fromkeys(MECHANISMS, 0)
        self.wall_ms = lambda: NOW_MS
        validator = UnsecuredValidator({})
        begin: dict[str, Callable[[], SaslExchange]] = {
            name: partial(_scram_exchange, mechanism, random) for name, mechanism in _SCRAM.items()
        }
        begin[plain.MECHANISM] = lambda: plain.PlainExchange({USER: PASSWORD})
        begin[oauthbearer.MECHANISM] = lambda: oauthbearer.OAuthExchange(validator, lambda: NOW_MS)
        self.mechanisms: Mapping[str, Callable[[], SaslExchange]] = begin


def _scram_exchange(mechanism: ScramMechanism, random: Random) -> ScramExchange:
    return ScramExchange(
        mechanism, lambda kind, user: _keys(kind) if user == USER else None, random.bytes(20).hex()
    )


@cache
def _keys(mechanism: ScramMechanism) -> UserScramCredentialRecord:
    salted = salted_password(mechanism, PASSWORD, SALT, ITERATIONS)
    keys = credential(USER, mechanism, salted, SALT, ITERATIONS)
    return UserScramCredentialRecord(
        name=USER,
        mechanism=mechanism,
        salt=SALT,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=ITERATIONS,
    )


class _Dispatch:
    """What is behind the login: before it, ApiVersions alone."""

    def serve(self, frame: memoryview, stream: Any) -> None:
        key = int.from_bytes(frame[:2], "big")
        if key != API_VERSIONS_KEY:
            raise Fault(f"a request with the key {key} was served before the login")


class _Stream:
    """The connection, as its login sees it."""

    def __init__(self, random: Random) -> None:
        dispatch: Any = _Dispatch()
        self.serve: Any = SaslLogin(_Sasl(random), dispatch).serve
        self.context = self
        self.by_token = False
        self.received_ns = 0
        self.principal = ""
        self.answers: list[bytes] = []
        self.is_refused = False

    def answer(self, *parts: Any) -> None:
        self.answers.append(b"".join(bytes(part) for part in parts)[SIZE_BYTES:])

    def logged_in(self, principal: str, serve: Any) -> None:
        self.principal, self.serve = principal, serve

    def login_failed(self, reason: str, delay_ms: int, *parts: Any) -> None:
        if PASSWORD in reason:
            raise Fault("a password is in the reason of a refusal")
        self.is_refused = True


class Logins:
    """Makes conversations; the slow part of SCRAM is done once."""

    def __init__(self) -> None:
        nonce = SeededRandom(0)
        self._logins = {
            (name, password): ClientLogin(
                name, JaasEntry("M", {"username": USER, "password": password}), nonce.bytes
            )
            for name in (*_SCRAM, plain.MECHANISM)
            for password in (PASSWORD, WRONG)
        }
        # The frames of the last login that succeeded, by mechanism.
        self._replayed: dict[str, list[bytes]] = {}

    def play(self, seed: int) -> Outcome:
        """One conversation; raises Fault."""
        random = SeededRandom(seed)
        mechanism = MECHANISMS[random.integer(0, len(MECHANISMS) - 1)]
        password = WRONG if random.fraction() < 0.3 else PASSWORD
        chance = (0.0, 0.3, 1.0)[random.integer(0, 2)]
        stream = _Stream(random)
        if random.fraction() < 0.1 and mechanism in self._replayed:
            sent, password = self._replayed[mechanism], PASSWORD
            kind = _converse(stream, iter(sent).__next__, random, chance)
            if stream.principal and mechanism in _SCRAM:
                raise Fault(f"{mechanism}: a replayed login was accepted (seed {seed})")
        else:
            talk = _Talk(self._client(mechanism, password), mechanism, stream)
            kind = _converse(stream, talk.next_frame, random, chance)
            if kind == "logged in" and chance == 0.0:
                self._replayed[mechanism] = talk.sent
        _check(stream, mechanism, password, seed)
        return Outcome(kind, mechanism)

    def _client(self, mechanism: str, password: str) -> ClientExchange:
        if mechanism == oauthbearer.MECHANISM:
            # The wrong one is over.
            expires_s = NOW_MS // 1000 + (60 if password == PASSWORD else -60)
            return oauthbearer.OAuthClient(
                OAuthToken(_token(USER, expires_s), USER, frozenset(), expires_s * 1000, None), {}
            )
        return self._logins[mechanism, password].begin()


class _Talk:
    """What a client would send, one frame after the other."""

    def __init__(self, exchange: ClientExchange, mechanism: str, stream: _Stream) -> None:
        self._exchange = exchange
        self._mechanism = mechanism
        self._stream = stream
        self.sent: list[bytes] = []

    def next_frame(self) -> bytes:
        if not self.sent:
            frame = _frame(SaslHandshakeRequest(mechanism=self._mechanism), 1)
        elif len(self.sent) == 1:
            frame = _frame(SaslAuthenticateRequest(auth_bytes=self._exchange.first()), 2)
        else:
            answer = SaslAuthenticateResponse.decode(self._stream.answers[-1][5:], 2)
            try:
                token = self._exchange.next(bytes(answer.auth_bytes))
            except SaslExchangeError:
                raise StopIteration from None
            if token is None:
                raise StopIteration
            frame = _frame(SaslAuthenticateRequest(auth_bytes=token), 2)
        self.sent.append(frame)
        return frame


def _frame(request: Any, version: int) -> bytes:
    return write_request(request, version, 1, "c")[SIZE_BYTES:]


def _converse(stream: _Stream, next_frame: Callable[[], bytes], random: Random, chance: float) -> str:
    """Sends what `next_frame` gives, changed with a chance, and requests out of place."""
    try:
        for _ in range(MAX_MESSAGES):
            if stream.principal or stream.is_refused:
                break
            try:
                frame = next_frame()
            except StopIteration:
                break
            if random.fraction() < chance:
                frame = _changed(frame, random)
            stream.serve(memoryview(bytearray(frame)), stream)
    except ProtocolError:
        return "closed"
    if stream.principal:
        return "logged in"
    return "refused" if stream.is_refused else "open"


def _changed(frame: bytes, random: Random) -> bytes:
    way = random.integer(0, 9)
    if way == 0:
        return _frame(MetadataRequest(topics=None), 12)
    if way == 1:
        return frame[: random.integer(0, len(frame))]
    if way == 2:
        return _frame(SaslHandshakeRequest(mechanism=MECHANISMS[random.integer(0, 3)]), random.integer(0, 1))
    if way == 3:
        return _frame(SaslAuthenticateRequest(auth_bytes=random.bytes(random.integer(0, 300))), 2)
    return bytes(mutated(frame, random))


def _check(stream: _Stream, mechanism: str, password: str, seed: int) -> None:
    where = f"{mechanism}, seed {seed}"
    if not stream.principal:
        return
    if password != PASSWORD and mechanism != oauthbearer.MECHANISM:
        raise Fault(f"a wrong password logged in ({where})")
    if mechanism != oauthbearer.MECHANISM and stream.principal != PRINCIPAL:
        raise Fault(f"{stream.principal} logged in with the password of {PRINCIPAL} ({where})")
