"""A certificate authority of one's own, and the certificates that it issues.

Keys are on the curve P-256, in PKCS #8 as Apache Kafka and Java read them.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.cli.framework.exits import CommandError
from barnabas.runtime.clock import Clock

if TYPE_CHECKING:
    from cryptography import x509

AUTHORITY_DAYS = 3650
# Clocks of different hosts differ.
_EARLIER = timedelta(hours=1)


class KeyAndCertificate(NamedTuple):
    """Both in PEM."""

    key: str
    certificate: str


class Authority:
    """Issues certificates that the nodes of one cluster trust."""

    def __init__(self, clock: Clock) -> None:
        _require_cryptography()
        from cryptography.hazmat.primitives.asymmetric import ec

        self._now = datetime.fromtimestamp(clock.wall_ms() / 1000, UTC)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._make_own()
        self.pem = _pems(self._key, self._certificate)

    def _make_own(self) -> x509.Certificate:
        from cryptography import x509

        builder = self._builder("barnabas cluster CA", self._key, AUTHORITY_DAYS)
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        return self._signed(builder.add_extension(usage, critical=True))

    def issue(self, name: str, hosts: tuple[str, ...], days: int) -> KeyAndCertificate:
        """A certificate for a node: it serves under these names, and connects to other nodes."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        builder = self._builder(name, key, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(usage, critical=False).add_extension(names, critical=False)
        return _pems(key, self._signed(builder))

    def _builder(self, name: str, key: Any, days: int) -> x509.CertificateBuilder:
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        own = getattr(self, "_certificate", None)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if own is None else own.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _EARLIER)
            .not_valid_after(self._now + timedelta(days=days))
        )

    def _signed(self, builder: x509.CertificateBuilder) -> x509.Certificate:
        from cryptography.hazmat.primitives import hashes

        return builder.sign(self._key, hashes.SHA256())


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pems(key: Any, certificate: x509.Certificate) -> KeyAndCertificate:
    from cryptography.hazmat.primitives import serialization

    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return KeyAndCertificate(
        key.private_bytes(pem, pkcs8, serialization.NoEncryption()).decode(),
        certificate.public_bytes(pem).decode(),
    )


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise CommandError(
            "making certificates needs the package cryptography; run `pip install barnabas[security]`"
        ) from error
