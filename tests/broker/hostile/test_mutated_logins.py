"""Logins and TLS handshakes with changed bytes: a bounded number of what `make fuzz` plays a million of."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import trustme

from barnabas.runtime.tls.context import Tls, TlsOptions
from barnabas.runtime.tls.stores import KeyMaterial
from barnabas.security.sasl.plain import PlainExchange
from barnabas.security.sasl.scram import ScramExchange
from barnabas.testing.hostile.mutated_handshakes import play_handshake
from barnabas.testing.hostile.mutated_logins import MECHANISMS, Fault, Logins, Outcome

LOGINS, HANDSHAKES = 3_000, 100


def test_no_changed_login_gets_in() -> None:
    logins = Logins()
    kinds = Counter(logins.play(seed) for seed in range(LOGINS))
    # Every mechanism comes to every end.
    for mechanism in MECHANISMS:
        for kind in ("logged in", "refused", "closed"):
            assert kinds[Outcome(kind, mechanism)] > 20, (kind, mechanism)


@pytest.mark.parametrize("broken", ["proof", "nonce", "password"])
def test_a_login_that_believes_is_found(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzz can fail: with a server that does not check, somebody gets in."""
    if broken == "password":

        def trusting(self: PlainExchange, token: bytes) -> bytes:
            self.user = "eve"
            return b""

        monkeypatch.setattr(PlainExchange, "evaluate", trusting)
    elif broken == "nonce":
        original = ScramExchange.__init__

        def without_nonce(self: ScramExchange, mechanism: Any, lookup: Any, nonce: str) -> None:
            original(self, mechanism, lookup, "same")

        monkeypatch.setattr(ScramExchange, "__init__", without_nonce)
    else:
        first = ScramExchange._first

        def believing(self: ScramExchange, text: str) -> bytes:
            answer = first(self, text)
            self.user = "alice"
            return answer

        monkeypatch.setattr(ScramExchange, "_first", believing)
    logins = Logins()
    with pytest.raises(Fault):
        for seed in range(LOGINS):
            logins.play(seed)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_changed_handshakes_are_refused(version: str) -> None:
    authority = trustme.CA()
    leaf = authority.issue_cert("localhost")
    chain = tuple(each.bytes().decode() for each in leaf.cert_chain_pems)
    trusted = (authority.cert_pem.bytes().decode(),)
    key = KeyMaterial(leaf.private_key_pem.bytes().decode(), chain)
    server = Tls(TlsOptions(key, trusted, protocols=(version,)), server=True)
    client = Tls(TlsOptions(None, trusted, protocols=(version,)), server=False)
    kinds = Counter(play_handshake(server, client, seed) for seed in range(HANDSHAKES))
    assert kinds["refused"] > HANDSHAKES // 4
    assert kinds["done"] > 0
