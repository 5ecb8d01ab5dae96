"""SASL exchanges on a server."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from barnabas.metadata.scram import ScramMechanism, credential, salted_password
from barnabas.protocol.records.metadata import UserScramCredentialRecord
from barnabas.security.sasl.exchange import SaslAuthenticationError, SaslExchangeError
from barnabas.security.sasl.jaas import parse_jaas
from barnabas.security.sasl.plain import PlainExchange, plain_users
from barnabas.security.sasl.scram import ScramExchange

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


def exchange() -> ScramExchange:
    """The example of RFC 7677: user `user`, password `pencil`."""
    mechanism = ScramMechanism.SCRAM_SHA_256
    salted = salted_password(mechanism, "pencil", SALT, 4096)
    keys = credential("user", mechanism, salted, SALT, 4096)
    record = UserScramCredentialRecord(
        name="user",
        mechanism=mechanism,
        salt=SALT,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=4096,
    )
    return ScramExchange(mechanism, lambda _, user: record if user == "user" else None, SERVER_NONCE)


FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)


def test_scram_follows_the_example_of_rfc_7677() -> None:
    login = exchange()
    assert login.evaluate(FIRST) == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert login.user is None
    assert login.evaluate(FINAL) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert login.user == "user"


@pytest.mark.parametrize("position", range(len(FINAL)))
def test_no_changed_final_message_logs_in(position: int) -> None:
    login = exchange()
    login.evaluate(FIRST)
    changed = bytearray(FINAL)
    changed[position] ^= 1
    with pytest.raises(SaslExchangeError):
        login.evaluate(bytes(changed))
    assert login.user is None


@pytest.mark.parametrize("size", range(len(FINAL)))
def test_no_cut_final_message_logs_in(size: int) -> None:
    login = exchange()
    login.evaluate(FIRST)
    with pytest.raises(SaslExchangeError):
        login.evaluate(FINAL[:size])


@pytest.mark.parametrize(
    "first",
    [b"", b"n,,n=eve,r=abc", b"y,,n=user,r=abc", b"p=tls-unique,,n=user,r=a", b"n,,n=user,r=", b"\xff"],
)
def test_a_first_message_is_refused(first: bytes) -> None:
    with pytest.raises(SaslExchangeError):
        exchange().evaluate(first)


def test_nobody_becomes_somebody_else() -> None:
    with pytest.raises(SaslAuthenticationError, match="different from username"):
        exchange().evaluate(b"n,a=admin,n=user,r=abc")
    with pytest.raises(SaslAuthenticationError, match="different from username"):
        PlainExchange({"alice": "secret"}).evaluate(b"admin\0alice\0secret")


def test_a_proof_for_a_replayed_nonce_is_refused() -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    salted = salted_password(mechanism, "pencil", SALT, 4096)
    login = exchange()
    server_first = login.evaluate(FIRST)
    bare = b"c=biws,r=rOprNGfwEbeRWgbNEkqO" + b"another"
    message = FIRST[3:] + b"," + server_first + b"," + bare
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    with pytest.raises(SaslExchangeError, match="nonce"):
        login.evaluate(bare + b",p=" + base64.b64encode(proof))


def test_plain_takes_the_right_password_only() -> None:
    login = PlainExchange({"alice": "secret"})
    for wrong in (b"\0alice\0Secret", b"\0bob\0secret", b"\0alice\0", b"\0\0secret", b"alice\0secret", b""):
        with pytest.raises(SaslAuthenticationError):
            login.evaluate(wrong)
        assert login.user is None
    assert login.evaluate(b"\0alice\0secret") == b""
    assert login.user == "alice"


def test_jaas_lines_of_apache_kafka_are_read() -> None:
    entry = parse_jaas(
        "org.apache.kafka.common.security.plain.PlainLoginModule required \\\n".replace("\\\n", "\n")
        + 'username="admin" password="a;=\\"b" user_admin="x y" user_bob=plain;'
    )
    assert entry.options["password"] == 'a;="b'
    assert plain_users(entry.options) == {"admin": "x y", "bob": "plain"}
    assert "plain;" not in repr(entry)


@pytest.mark.parametrize(
    "text", ["", "Module", "Module required", 'M required a="s3cret;', "M maybe a=b;", "M required a b;"]
)
def test_a_broken_jaas_line_is_refused_without_its_values(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_jaas(text)
    assert "s3cret" not in str(caught.value)
