"""Stores of every type: those of Java's keytool, PEM as people paste it, damaged ones, wrong passwords."""

from __future__ import annotations

import random
import ssl
from datetime import datetime
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificate

from barnabas.config import BROKER, ConfigError, Mode
from barnabas.runtime.tls.context import TlsOptions, server_context
from barnabas.runtime.tls.options import read_tls_options
from barnabas.runtime.tls.stores import pem_certificates, pem_key, store_certificates, store_key
from barnabas.security.certificates import read_pem_certificate

DATA = Path(__file__).parents[2] / "data" / "tls"
NODE, TRUST, TRUST_P12 = (DATA / name for name in ("node.jks", "trust.jks", "trust.p12"))
BARE = {"process.roles": "broker,controller", "node.id": "1", "controller.quorum.voters": "1@localhost:9093"}


@pytest.fixture(scope="module")
def leaf() -> trustme.LeafCert:
    return trustme.CA().issue_cert("localhost")


def pem_of(leaf: trustme.LeafCert) -> str:
    return leaf.private_key_and_cert_chain_pem.bytes().decode()


def test_a_key_of_keytools_jks_is_usable() -> None:
    material = store_key(NODE.read_bytes(), "store-secret", "key-secret")
    server_context(TlsOptions(material))
    certificate = read_pem_certificate(material.chain[0])
    assert certificate.subject == "CN=node,OU=Ops,O=Example"
    assert certificate.names == ("localhost", "127.0.0.1")
    assert "secret" not in repr(material)
    assert "PRIVATE" not in repr(material)


@pytest.mark.parametrize(
    ("store", "key", "why"),
    [
        ("wrong", "key-secret", "password of the JKS store is wrong"),
        ("store-secret", "wrong", "password of the private key is wrong"),
        ("store-secret", None, "password of the private key is wrong"),
        (None, None, "set ssl.keystore.password"),
    ],
)
def test_wrong_passwords_of_a_jks(store: str | None, key: str | None, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        store_key(NODE.read_bytes(), store, key)


@pytest.mark.parametrize("path", [TRUST, TRUST_P12], ids=["JKS", "PKCS12"])
def test_trust_stores_of_keytool(path: Path) -> None:
    (certificate,) = store_certificates(path.read_bytes(), "trust-secret")
    assert read_pem_certificate(certificate).subject == "CN=node,OU=Ops,O=Example"
    with pytest.raises(ConfigError, match="password"):
        store_certificates(path.read_bytes(), "wrong")


def test_a_jks_without_its_password_is_read_unchecked_as_by_java() -> None:
    assert len(store_certificates(TRUST.read_bytes(), None)) == 1


@pytest.mark.parametrize("path", [NODE, TRUST, TRUST_P12], ids=["keys", "JKS", "PKCS12"])
def test_damaged_stores_are_refused_in_words(path: Path) -> None:
    whole = path.read_bytes()
    dice = random.Random(7)
    for _ in range(300):
        damaged = bytearray(whole[: dice.randrange(1, len(whole) + 1)])
        damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
        for read in (
            lambda data: store_key(data, None, "key-secret"),
            lambda data: store_certificates(data, None),
        ):
            try:
                read(bytes(damaged))
            except ConfigError:
                continue


def test_pkcs12_with_key_and_chain(leaf: trustme.LeafCert) -> None:
    key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
    first, *others = [load_pem_x509_certificate(each.bytes()) for each in leaf.cert_chain_pems]
    data = pkcs12.serialize_key_and_certificates(
        b"node",
        key,  # type: ignore[arg-type]
        first,
        others,
        serialization.BestAvailableEncryption(b"secret"),
    )
    server_context(TlsOptions(store_key(data, "secret", None)))
    with pytest.raises(ConfigError, match="its password is wrong"):
        store_key(data, "wrong", None)


def test_pem_as_it_stands_in_a_properties_file(leaf: trustme.LeafCert) -> None:
    """Continued lines of a value are joined: the line ends inside the blocks are lost."""
    text = pem_of(leaf)
    joined = text.replace("\n", " ")
    assert pem_key(joined, joined, None) == pem_key(text, text, None)
    server_context(TlsOptions(pem_key(joined, joined, None)))


def test_an_encrypted_key_needs_its_password(leaf: trustme.LeafCert) -> None:
    key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    ).decode()
    chain = leaf.cert_chain_pems[0].bytes().decode()
    server_context(TlsOptions(pem_key(encrypted, chain, "secret")))
    with pytest.raises(ConfigError, match=r"set ssl\.key\.password"):
        pem_key(encrypted, chain, None)
    with pytest.raises(ConfigError, match=r"ssl\.key\.password is wrong"):
        server_context(TlsOptions(pem_key(encrypted, chain, "wrong")))


def test_a_key_of_another_certificate_is_refused(leaf: trustme.LeafCert) -> None:
    other = trustme.CA().issue_cert("localhost")
    chain = other.cert_chain_pems[0].bytes().decode()
    with pytest.raises(ConfigError, match="does not belong to the first certificate"):
        server_context(TlsOptions(pem_key(leaf.private_key_pem.bytes().decode(), chain, None)))


def test_what_java_accepts_and_openssl_does_not_is_explained() -> None:
    """As in the key store of kafkajs' own tests. The password is right, and must not be blamed."""
    text = (DATA / "sha1.pem").read_text("utf-8")
    key = serialization.load_pem_private_key(text.encode(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    ).decode()
    for given, password in ((text, None), (encrypted, "secret")):
        with pytest.raises(ConfigError, match=r"signed with SHA-1 .* issue it again with SHA-256"):
            server_context(TlsOptions(pem_key(given, text, password)))
    short = rsa.generate_private_key(65537, 1024)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "old")])
    issued = (
        x509.CertificateBuilder(name, name, short.public_key(), serial_number=1)
        .not_valid_before(datetime(2020, 1, 1))
        .not_valid_after(datetime(2100, 1, 1))
        .sign(short, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    weak = short.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(ConfigError, match="too short for OpenSSL"):
        server_context(TlsOptions(pem_key(weak.decode(), issued.decode(), None)))


def test_a_text_without_a_key_or_certificate_is_refused(leaf: trustme.LeafCert) -> None:
    with pytest.raises(ConfigError, match="one private key, and has 0"):
        pem_key("", pem_of(leaf), None)
    with pytest.raises(ConfigError, match="no certificate"):
        pem_key(pem_of(leaf), "", None)
    assert pem_certificates("nothing") == ()


# ------------------------------------------------------------------------------------------ options and files


def options(given: dict[str, str], listener: str | None = "SAFE") -> TlsOptions:
    return read_tls_options(BROKER.parse(BARE | given, Mode.KRAFT), listener)


def test_the_prefix_of_a_listener_goes_first(tmp_path: Path, leaf: trustme.LeafCert) -> None:
    (tmp_path / "node.pem").write_text(pem_of(leaf))
    read = options(
        {
            "ssl.keystore.location": str(NODE),
            "ssl.keystore.password": "store-secret",
            "ssl.key.password": "key-secret",
            "listener.name.safe.ssl.keystore.type": "PEM",
            "listener.name.safe.ssl.keystore.location": str(tmp_path / "node.pem"),
            "listener.name.safe.ssl.client.auth": "required",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert read.key is not None
    assert read.key.chain[0] == leaf.cert_chain_pems[0].bytes().decode()
    assert read.client_auth == "required"
    assert not read.check_host


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"ssl.keystore.location": "/absent"}, "ssl.keystore.location: /absent cannot be read: No such file"),
        ({"ssl.keystore.location": str(NODE)}, "node.jks.*set ssl.keystore.password"),
        ({"ssl.keystore.type": "BCFKS"}, "BCFKS of ssl.keystore.type is no type of a store"),
        ({"ssl.keystore.key": "x"}, "need ssl.keystore.type=PEM"),
        ({"ssl.keystore.key": "x", "ssl.keystore.type": "PEM"}, "must be set together"),
        ({"ssl.truststore.certificates": "x"}, "needs ssl.truststore.type=PEM"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.1 of ssl.enabled.protocols is not supported"),
    ],
)
def test_wrong_options_are_named(given: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        options(given)


def test_a_listener_without_a_key_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"set ssl\.keystore\.location"):
        server_context(options({}))


def test_cipher_suites_have_their_names_in_java(leaf: trustme.LeafCert) -> None:
    material = pem_key(pem_of(leaf), pem_of(leaf), None)
    suites = ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256")
    context = server_context(TlsOptions(material, cipher_suites=suites))
    names = {cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"}
    assert names == {"ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305"}
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    with pytest.raises(ConfigError, match="TLS_NONSENSE"):
        server_context(TlsOptions(material, cipher_suites=("TLS_NONSENSE_WITH_NULL", suites[0])))
