"""The security of a broker towards ZooKeeper: `zookeeper.ssl.*`, a login by JAAS, and ACLs on znodes.

The login is that of Apache Kafka's scripts: the section `Client` of the file that KAFKA_OPTS names with
`-Djava.security.auth.login.config`.  With `zookeeper.set.acl` each znode belongs to whoever creates it; all
may read those without secrets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.config.errors import ConfigError
from barnabas.config.settings import Settings
from barnabas.runtime.tls.context import PROTOCOLS, TlsOptions
from barnabas.runtime.tls.stores import (
    STORE_TYPES,
    KeyMaterial,
    pem_certificates,
    pem_key,
    store_certificates,
    store_key,
)
from barnabas.runtime.zookeeper.client import OPEN_ACL, Acl
from barnabas.runtime.zookeeper.security import (
    CREATOR_ALL_ACL,
    WORLD_READS_ACL,
    DigestLogin,
    ZooKeeperSecurity,
    open_acl,
)
from barnabas.security.sasl.jaas import parse_jaas

LOGIN_CONFIG = "java.security.auth.login.config"
CLIENT_SECTION = "zookeeper.sasl.clientconfig"
DIGEST_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
# No file of a login, and no store, is larger; the limit is checked before the file is read.
MAX_FILE_BYTES = 16 << 20
# A password in quotes may look as if it had a comment in it: it is kept.
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_SET_ACL = "zookeeper.set.acl"
_PEM = "PEM"
_PEM_START = b"-----BEGIN"
_NETTY = "org.apache.zookeeper.ClientCnxnSocketNetty"


def kafka_acl(path: str) -> Sequence[Acl]:
    """The ACL of a znode as Apache Kafka sets it: old consumers write below /consumers, whoever they are."""
    if path == paths.CONSUMERS:
        return OPEN_ACL
    if path.startswith(paths.SENSITIVE_ROOTS):
        return (CREATOR_ALL_ACL,)
    return CREATOR_ALL_ACL, WORLD_READS_ACL


def read_zookeeper_security(
    settings: Settings, java_property: Callable[[str], str | None]
) -> ZooKeeperSecurity:
    """Reads the options and their files; ConfigError says which one is wrong."""
    tls = _tls(settings) if settings["zookeeper.ssl.client.enable"] else None
    login = _login(java_property)
    sets_acls = bool(settings[_SET_ACL])
    if sets_acls and login is None and (tls is None or tls.key is None):
        raise ConfigError(
            f"{_SET_ACL} is true, but this broker proves to ZooKeeper who it is neither by a login nor by "
            f"a certificate: give KAFKA_OPTS=-D{LOGIN_CONFIG}=FILE, a file with a section Client, or "
            "zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location"
        )
    return ZooKeeperSecurity(login, tls, kafka_acl if sets_acls else open_acl)


def _login(java_property: Callable[[str], str | None]) -> DigestLogin | None:
    path = java_property(LOGIN_CONFIG)
    if path is None:
        return None
    name = java_property(CLIENT_SECTION) or "Client"
    text = _COMMENT.sub(lambda found: found[1] or "", _read(LOGIN_CONFIG, path).decode("utf-8", "replace"))
    section = re.search(rf"(?:^|[;\s}}]){re.escape(name)}\s*\{{(.*?)\}}\s*;", text, re.DOTALL)
    if section is None:
        return None
    try:
        entry = parse_jaas(section[1].strip())
    except ValueError as error:
        raise ConfigError(f"the section {name} of {path} cannot be read: {error}") from error
    if entry.module != DIGEST_MODULE:
        raise ConfigError(
            f"the section {name} of {path} uses {entry.module}, which is not supported towards ZooKeeper",
            allowed=DIGEST_MODULE,
        )
    user, password = entry.options.get("username"), entry.options.get("password")
    if not user or password is None:
        raise ConfigError(f"the section {name} of {path} needs username and password")
    return DigestLogin(user, password)


def _tls(settings: Settings) -> TlsOptions:
    connection = settings["zookeeper.clientCnxnSocket"]
    if connection not in (None, _NETTY):
        raise ConfigError(f"zookeeper.clientCnxnSocket={connection} has no TLS", allowed=_NETTY)
    protocols = tuple(settings["zookeeper.ssl.enabled.protocols"] or (settings["zookeeper.ssl.protocol"],))
    for protocol in protocols:
        if protocol not in PROTOCOLS:
            raise ConfigError(
                f"The protocol {protocol} towards ZooKeeper is not supported", allowed=", ".join(PROTOCOLS)
            )
    return TlsOptions(
        key=_key(settings),
        trusted=_trusted(settings),
        protocols=protocols,
        cipher_suites=tuple(settings["zookeeper.ssl.cipher.suites"] or ()),
        check_host=str(settings["zookeeper.ssl.endpoint.identification.algorithm"]).upper() == "HTTPS",
    )


def _key(settings: Settings) -> KeyMaterial | None:
    option = "zookeeper.ssl.keystore.location"
    location = settings[option]
    if location is None:
        return None
    data, password = _read(option, location), _secret(settings, "zookeeper.ssl.keystore.password")
    try:
        if _is_pem(data, settings["zookeeper.ssl.keystore.type"]):
            text = data.decode("utf-8", "replace")
            return pem_key(text, text, password)
        return store_key(data, password, None)
    except ConfigError as error:
        raise ConfigError(f"{option} ({location}): {error}") from error


def _trusted(settings: Settings) -> tuple[str, ...] | None:
    option = "zookeeper.ssl.truststore.location"
    location = settings[option]
    if location is None:
        return None
    data = _read(option, location)
    try:
        if _is_pem(data, settings["zookeeper.ssl.truststore.type"]):
            return pem_certificates(data.decode("utf-8", "replace"))
        return store_certificates(data, _secret(settings, "zookeeper.ssl.truststore.password"))
    except ConfigError as error:
        raise ConfigError(f"{option} ({location}): {error}") from error


def _is_pem(data: bytes, kind: str | None) -> bool:
    """JKS and PKCS12 are told apart by their contents; without a type, PEM is too."""
    if kind is None:
        return _PEM_START in data
    if kind.upper() not in STORE_TYPES:
        raise ConfigError(f"{kind} is no type of a store", allowed=", ".join(STORE_TYPES))
    return kind.upper() == _PEM


def _secret(settings: Settings, option: str) -> str | None:
    value = settings[option]
    return None if value is None else str(value.value)


def _read(option: str, location: str) -> bytes:
    path = Path(location)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError(f"{option}: {path} is larger than {MAX_FILE_BYTES} bytes")
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{option}: {path} cannot be read: {error.strerror}") from error
