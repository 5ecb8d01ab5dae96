"""How a client proves who it is to an ensemble, and which ACLs its znodes get.

TLS is that of `runtime.tls`.  The login is ZooKeeper's own: SASL with DIGEST-MD5 (RFC 2831), whose answer is
computed here.  Pure; the exchange belongs in `kazoo_session`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from barnabas.runtime.tls.context import TlsOptions
from barnabas.runtime.zookeeper.client import OPEN_ACL, Acl

# ZooKeeper's servers are all called this in a digest, whatever their names are.
DIGEST_URI = b"zookeeper/zk-sasl-md5"
ALL, READ = 31, 1
# Whoever creates a znode, by the names that its session has proved.
CREATOR_ALL_ACL = Acl(ALL, "auth", "")
WORLD_READS_ACL = Acl(READ, "world", "anyone")

_FIELD = re.compile(rb'\s*([a-zA-Z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^,"]*))\s*(?:,|$)')


class LoginRefusedError(Exception):
    """The server is not the one that it must be, or does not log in this client."""


@dataclass(frozen=True, slots=True)
class DigestLogin:
    """A user of ZooKeeper's DigestLoginModule."""

    user: str
    password: str = field(repr=False)


def open_acl(path: str) -> Sequence[Acl]:
    return OPEN_ACL


@dataclass(frozen=True, slots=True)
class ZooKeeperSecurity:
    """Of one client; by default everything is open."""

    login: DigestLogin | None = None
    tls: TlsOptions | None = None
    # The ACL of a new znode, by its path below the chroot.
    acl_of: Callable[[str], Sequence[Acl]] = open_acl


NO_ZOOKEEPER_SECURITY = ZooKeeperSecurity()


class DigestExchange:
    """The client's side of one login."""

    def __init__(self, login: DigestLogin, nonce: str) -> None:
        """`nonce`: what nobody else can guess."""
        self._login = login
        self._nonce = nonce.encode()
        self._expected = b""

    def answer(self, challenge: bytes) -> bytes:
        """To the server's challenge; LoginRefusedError if it asks for what is not known."""
        fields = _fields(challenge)
        nonce = fields.get("nonce")
        if nonce is None or fields.get("algorithm", b"md5-sess") != b"md5-sess":
            raise LoginRefusedError("ZooKeeper's challenge is no DIGEST-MD5 challenge")
        if b"auth" not in fields.get("qop", b"auth").split(b","):
            raise LoginRefusedError("ZooKeeper wants more than a login, which is not supported")
        realm = fields.get("realm", b"")
        user, password = _encoded(self._login.user), _encoded(self._login.password)
        secret = _md5(user + b":" + realm + b":" + password) + b":" + nonce + b":" + self._nonce

        def proof(verb: bytes) -> bytes:
            parts = (
                _hex(_md5(secret)),
                nonce,
                b"00000001",
                self._nonce,
                b"auth",
                _hex(_md5(verb + b":" + DIGEST_URI)),
            )
            return _hex(_md5(b":".join(parts)))

        self._expected = proof(b"")
        return b",".join(
            (
                b"charset=utf-8",
                b'username="%s"' % _quoted(self._login.user.encode()),
                b'realm="%s"' % _quoted(realm),
                b'nonce="%s"' % _quoted(nonce),
                b"nc=00000001",
                b'cnonce="%s"' % _quoted(self._nonce),
                b'digest-uri="%s"' % DIGEST_URI,
                b"response=" + proof(b"AUTHENTICATE"),
                b"qop=auth",
            )
        )

    def check(self, final: bytes) -> None:
        """The server has proved that it knows the password, too; else LoginRefusedError."""
        if not self._expected or _fields(final).get("rspauth") != self._expected:
            raise LoginRefusedError("ZooKeeper has not proved that it knows the password")


def _fields(text: bytes) -> dict[str, bytes]:
    fields = {}
    position = 0
    while position < len(text):
        match = _FIELD.match(text, position)
        if match is None or match.end() == position:
            raise LoginRefusedError("ZooKeeper's challenge cannot be read")
        quoted, plain = match[2], match[3]
        fields[match[1].decode().lower()] = (
            plain.strip() if quoted is None else re.sub(rb"\\(.)", rb"\1", quoted)
        )
        position = match.end()
    return fields


def _quoted(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def _encoded(text: str) -> bytes:
    """As Java's client: in ISO 8859-1 where that has all letters."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data).digest()  # DIGEST-MD5 has it  # nosec B324


def _hex(digest: bytes) -> bytes:
    return digest.hex().encode()
