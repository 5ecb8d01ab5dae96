"""What is read of certificates, and that damaged ones are refused with ValueError and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from barnabas.security.certificates import read_certificate

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def certificate(
    *names: tuple[x509.ObjectIdentifier, str], end: datetime = START + timedelta(days=1)
) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(*each) for each in names])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(START)
        .not_valid_after(end)
        .add_extension(
            x509.SubjectAlternativeName(
                [
                    x509.DNSName("a.example"),
                    x509.IPAddress(ip_address("127.0.0.1")),
                    x509.IPAddress(ip_address("::1")),
                ]
            ),
            critical=False,
        )
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def test_the_subject_is_written_as_java_writes_it() -> None:
    der = certificate(
        (NameOID.COUNTRY_NAME, "DE"),
        (NameOID.ORGANIZATION_NAME, 'A, "B" + C'),
        (NameOID.EMAIL_ADDRESS, "a@b"),
        (NameOID.COMMON_NAME, "#alice "),
    )
    read = read_certificate(der)
    assert read.subject == 'CN=\\#alice\\ ,1.2.840.113549.1.9.1=#1603614062,O=A\\, \\"B\\" \\+ C,C=DE'


def test_validity_and_names() -> None:
    read = read_certificate(certificate((NameOID.COMMON_NAME, "x"), end=datetime(2055, 1, 1, tzinfo=UTC)))
    assert read.not_before_s == int(START.timestamp())
    assert read.not_after_s == int(datetime(2055, 1, 1, tzinfo=UTC).timestamp())
    assert read.names == ("a.example", "127.0.0.1", "::1")
    assert read.is_self_issued


def test_damaged_certificates_are_refused() -> None:
    der = certificate((NameOID.COMMON_NAME, "x"))
    for end in range(len(der)):
        with pytest.raises(ValueError):
            read_certificate(der[:end])
    for position in range(120):
        damaged = bytearray(der)
        damaged[position] ^= 0xFF
        try:
            read_certificate(bytes(damaged))
        except ValueError:
            continue
