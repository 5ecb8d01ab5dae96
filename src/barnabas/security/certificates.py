"""What a certificate says: its subject as Java writes it, its validity, and the names it is for.  Pure."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from barnabas.runtime.tls.der import OBJECT_ID, SEQUENCE, SET, Element, object_id, read_element

# The attribute types that have a keyword in RFC 2253; Java writes all others as numbers and hexadecimal DER.
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ENCODINGS = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x16: "ascii",
    0x14: "latin-1",
    0x1E: "utf-16-be",
    0x1C: "utf-32-be",
}
_EXPLICIT_VERSION, _EXTENSIONS = 0xA0, 0xA3
_UTC_TIME = 0x17
_SUBJECT_ALT_NAME = "2.5.29.17"
_DNS_NAME, _IP_ADDRESS = 0x82, 0x87
_SPECIAL = ',+"\\<>;'


class Certificate(NamedTuple):
    """A certificate without its keys."""

    subject: str
    not_before_s: int
    not_after_s: int
    # DNS names, and addresses in their text form.
    names: tuple[str, ...]
    is_self_issued: bool


def read_certificate(der: bytes) -> Certificate:
    """Reads a certificate (RFC 5280); ValueError if it is not one."""
    fields = list(_first(read_element(der)[0].expect(SEQUENCE)).expect(SEQUENCE).children())
    if fields and fields[0].tag == _EXPLICIT_VERSION:
        del fields[0]
    if len(fields) < 6:
        raise ValueError("the certificate lacks fields")
    issuer, validity, subject = fields[2], list(fields[3].expect(SEQUENCE).children()), fields[4]
    extensions = next((field for field in fields[5:] if field.tag == _EXTENSIONS), None)
    return Certificate(
        distinguished_name(subject),
        _time(validity[0]),
        _time(validity[1]),
        tuple(_alternative_names(extensions)),
        issuer == subject,
    )


def read_pem_certificate(pem: str) -> Certificate:
    """Reads one certificate in PEM."""
    lines = [line for line in pem.strip().splitlines() if not line.startswith("-----")]
    return read_certificate(base64.b64decode("".join(lines)))


def distinguished_name(name: Element) -> str:
    """A name as Java's X500Principal.getName() has it: RFC 2253, the last part first."""
    parts = [
        "+".join(_attribute(attribute) for attribute in part.expect(SET).children())
        for part in name.expect(SEQUENCE).children()
    ]
    return ",".join(reversed(parts))


def _attribute(attribute: Element) -> str:
    kind, value = attribute.expect(SEQUENCE).children()
    number = object_id(kind.expect(OBJECT_ID).content)
    keyword = _KEYWORDS.get(number)
    encoding = _ENCODINGS.get(value.tag)
    if keyword is None or encoding is None:
        size = len(value.content)
        length = bytes([size]) if size < 0x80 else bytes([0x82]) + size.to_bytes(2, "big")
        return f"{keyword or number}=#{(bytes([value.tag]) + length + value.content).hex()}"
    return f"{keyword}={_escaped(str(value.content, encoding, 'replace'))}"


def _escaped(text: str) -> str:
    escaped = "".join("\\" + character if character in _SPECIAL else character for character in text)
    if escaped[:1] in ("#", " "):
        escaped = "\\" + escaped
    if len(text) > 1 and text.endswith(" "):
        escaped = escaped[:-1] + "\\ "
    return escaped


def _first(element: Element) -> Element:
    first = next(element.children(), None)
    if first is None:
        raise ValueError("the certificate lacks fields")
    return first


def _time(element: Element) -> int:
    text = element.content.decode("ascii")
    if element.tag == _UTC_TIME:
        # RFC 5280: years from 50 on are of the last century.
        text = ("19" if text[:2] >= "50" else "20") + text
    return int(datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp())


def _alternative_names(extensions: Element | None) -> Iterator[str]:
    if extensions is None:
        return
    for extension in _first(extensions).children():
        kind, *_, value = extension.children()
        if object_id(kind.content) != _SUBJECT_ALT_NAME:
            continue
        for name in read_element(value.content)[0].children():
            if name.tag == _DNS_NAME:
                yield str(name.content, "ascii", "replace")
            elif name.tag == _IP_ADDRESS:
                yield _address(name.content)


def _address(content: bytes) -> str:
    import ipaddress  # It costs a few milliseconds, and only checks of certificates need it.

    try:
        return str(ipaddress.ip_address(content))
    except ValueError:
        return content.hex()
