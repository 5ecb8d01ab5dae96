"""A client's login, its TLS, and the ACLs of its znodes, on a real server that asks for them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from barnabas.runtime.clock import SystemClock
from barnabas.runtime.loop.reactor_thread import ReactorThread
from barnabas.runtime.tls.context import TlsOptions
from barnabas.runtime.tls.stores import pem_certificates, pem_key
from barnabas.runtime.zookeeper import security
from barnabas.runtime.zookeeper.client import (
    OPEN_ACL,
    Acl,
    ConnectionTimeout,
    Create,
    ZooKeeperCode,
    ZooKeeperError,
)
from barnabas.runtime.zookeeper.kazoo_client import KazooZooKeeperClient
from barnabas.runtime.zookeeper.options import ZooKeeperOptions
from barnabas.runtime.zookeeper.security import (
    CREATOR_ALL_ACL,
    WORLD_READS_ACL,
    DigestExchange,
    DigestLogin,
    LoginRefusedError,
    ZooKeeperSecurity,
)
from tests.ensemble import HOST, ZooKeeperServer, why_no_zookeeper
from tools.ports import free_ports

LOGIN = DigestLogin("kafka", 'secret with "quotes"')
PATIENCE_S = 60.0
JAAS = """
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_kafka="secret with \\"quotes\\""
    user_other="other";
};
"""


# The exchange -------------------------------------------------------------------------------------------------


def test_the_answer_is_that_of_the_rfc(monkeypatch: pytest.MonkeyPatch) -> None:
    """RFC 2831, section 4."""
    monkeypatch.setattr(security, "DIGEST_URI", b"imap/elwood.innosoft.com")
    exchange = DigestExchange(DigestLogin("chris", "secret"), "OA6MHXh6VqTrRk")
    answer = exchange.answer(
        b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'
    )
    assert b"response=d388dad90d4bbd760a152321f2143af7" in answer
    assert b'username="chris"' in answer
    assert b"secret" not in answer
    exchange.check(b"rspauth=ea40f60335c427b5527b84dbabcdfffd")
    with pytest.raises(LoginRefusedError, match="has not proved"):
        exchange.check(b"rspauth=ea40f60335c427b5527b84dbabcdfffe")


@pytest.mark.parametrize(
    "challenge",
    [b"", b'realm="x"', b'nonce="x",algorithm=md5', b'nonce="x",qop="auth-conf"', b'nonce="x', b"=,"],
)
def test_strange_challenges_are_refused(challenge: bytes) -> None:
    with pytest.raises(LoginRefusedError):
        DigestExchange(LOGIN, "n").answer(challenge)


def test_nothing_is_proved_before_the_answer() -> None:
    with pytest.raises(LoginRefusedError):
        DigestExchange(LOGIN, "n").check(b"rspauth=")


def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(LOGIN)


# A server -----------------------------------------------------------------------------------------------------


class SecuredServer(NamedTuple):
    """Its plain port wants nothing; a znode may want a login.  Its other port wants TLS and a certificate."""

    plain: str
    secured: str
    authority: trustme.CA
    folder: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    why = why_no_zookeeper()
    if why is not None:
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("secured-zookeeper")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    (folder / "server.pem").write_text(_pkcs8(authority.issue_cert("localhost")), "utf-8")
    (folder / "jaas.conf").write_text(JAAS, "utf-8")
    plain, secured = free_ports(2)
    one = ZooKeeperServer(
        folder / "zk",
        1,
        plain,
        [],
        (
            f"secureClientPort={secured}",
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
            f"ssl.keyStore.location={folder / 'server.pem'}",
            f"ssl.trustStore.location={folder / 'ca.pem'}",
        ),
        (f"-Djava.security.auth.login.config={folder / 'jaas.conf'}",),
    )
    try:
        one.start()
        one.wait()
        yield SecuredServer(f"{HOST}:{plain}", f"localhost:{secured}", authority, folder)
    finally:
        one.kill()
        shutil.rmtree(folder / "zk", ignore_errors=True)


def _pkcs8(leaf: trustme.LeafCert) -> str:
    """As Java wants it."""
    key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem.decode() + "".join(each.bytes().decode() for each in leaf.cert_chain_pems)


class Client:
    """A client of this test, on a loop of its own."""

    def __init__(self, connect: str, given: ZooKeeperSecurity | None, timeout_ms: int = 60_000) -> None:
        self._thread = ReactorThread("zookeeper-loop")
        reactor = self._thread.reactor
        options = ZooKeeperOptions(connect, 10_000, timeout_ms, security=given)
        self.client = KazooZooKeeperClient(
            options, post=reactor.post, timers=reactor.timers, clock=SystemClock()
        )

    def __enter__(self) -> Client:
        try:
            self._thread.finish(self.client.start, PATIENCE_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.finish(self.client.close, PATIENCE_S)
        self._thread.end()

    def create(self, path: str, *, make_parents: bool = False) -> None:
        self._thread.finish(lambda: self.client.create(path, b"x", make_parents=make_parents), PATIENCE_S)

    def transact(self, path: str) -> None:
        self._thread.finish(lambda: self.client.transact([Create(path)]), PATIENCE_S)

    def read(self, path: str) -> bytes | None:
        found = self._thread.finish(lambda: self.client.get(path), PATIENCE_S)
        return None if found is None else found.data

    def acl(self, path: str) -> list[Acl]:
        return self._thread.finish(lambda: self.client.get_acl(path), PATIENCE_S)


def acl_of(path: str) -> tuple[Acl, ...]:
    if path.startswith("/secret"):
        return (CREATOR_ALL_ACL,)
    return OPEN_ACL if path == "/open" else (CREATOR_ALL_ACL, WORLD_READS_ACL)


def test_znodes_get_the_acl_of_their_paths_below_the_chroot(server: SecuredServer) -> None:
    given = ZooKeeperSecurity(LOGIN, acl_of=acl_of)
    own = Acl(31, "sasl", "kafka")
    with Client(f"{server.plain}/below", given) as client:
        client.create("/secret/parts", make_parents=True)
        client.create("/open")
        client.transact("/other")
        assert client.acl("/secret") == client.acl("/secret/parts") == [own]
        assert client.acl("/open") == list(OPEN_ACL)
        assert client.acl("/other") == [own, WORLD_READS_ACL]
        assert client.read("/secret/parts") == b"x"
    with Client(f"{server.plain}/below", None) as stranger:
        assert stranger.acl("/other") == [own, WORLD_READS_ACL]
        for forbidden in (partial(stranger.read, "/secret"), partial(stranger.create, "/other/mine")):
            with pytest.raises(ZooKeeperError) as refused:
                forbidden()
            assert refused.value.code is ZooKeeperCode.NO_AUTH


@pytest.mark.parametrize("login", [DigestLogin("kafka", "wrong"), DigestLogin("nobody", "x")])
def test_a_login_that_is_refused_ends_the_start(
    server: SecuredServer, login: DigestLogin, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ZooKeeperError) as refused, Client(server.plain, ZooKeeperSecurity(login)):
        pass
    assert refused.value.code is ZooKeeperCode.AUTH_FAILED
    assert f"the login of {login.user} at ZooKeeper failed" in caplog.text
    assert login.password not in caplog.text or login.password == "x"


def test_tls_checks_the_server_and_shows_a_certificate(server: SecuredServer) -> None:
    leaf = server.authority.issue_cert("kafka.example", common_name="kafka")
    pem = leaf.private_key_and_cert_chain_pem.bytes().decode()
    trusted = pem_certificates(server.authority.cert_pem.bytes().decode())
    tls = TlsOptions(key=pem_key(pem, pem, None), trusted=trusted)
    with Client(f"{server.secured}/tls", ZooKeeperSecurity(tls=tls, acl_of=acl_of)) as client:
        # Many answers come in one record of TLS: none of them waits for the next one.
        for number in range(50):
            client.create(f"/n{number}")
        assert [client.read(f"/n{number}") for number in range(50)] == [b"x"] * 50
        (own, world) = client.acl("/n0")
        assert (own.scheme, world) == ("x509", WORLD_READS_ACL)
        assert "CN=kafka" in own.id


def test_an_unknown_authority_is_named(server: SecuredServer, caplog: pytest.LogCaptureFixture) -> None:
    other = pem_certificates(trustme.CA().cert_pem.bytes().decode())
    given = ZooKeeperSecurity(tls=TlsOptions(trusted=other))
    with pytest.raises(ConnectionTimeout), Client(server.secured, given, timeout_ms=2_000):
        pass
    assert "the TLS handshake with ZooKeeper at localhost failed" in caplog.text
    assert caplog.text.count("the TLS handshake with ZooKeeper") == 1, "it is told once"
