"""`/config/…`: the options of an entity, and the notifications of their changes.

Quotas and SCRAM credentials are options of users, clients and addresses.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from barnabas.base.java_order import hash_map_order
from barnabas.broker.modes.zookeeper.znodes.json_data import MalformedZnodeError, decode, encode
from barnabas.metadata.scram import ScramCredential, ScramMechanism

VERSION = 1
CHANGE_VERSION = 2


def encode_configs(configs: Mapping[str, str]) -> bytes:
    """In the order of Java's `Properties`."""
    return encode({"version": VERSION, "config": {name: configs[name] for name in hash_map_order(configs)}})


def decode_configs(path: str, data: bytes | None) -> dict[str, str]:
    """A znode without data has no options: `/config/users/U` may be only the parent of its clients."""
    if data is None or not data:
        return {}
    found = decode(path, data)
    if found.integer("version", VERSION) != VERSION:
        raise found.fail("its version is not known")
    return found.text_map("config")


def encode_change(entity_path: str) -> bytes:
    """`topics/orders`, `users/alice/clients/app`, `brokers/<default>`: the path below /config."""
    return encode({"version": CHANGE_VERSION, "entity_path": entity_path})


def decode_change(path: str, data: bytes | None) -> str:
    """Version 1 named the type and the entity, for topics and clients only."""
    found = decode(path, data)
    version = found.integer("version")
    if version == 1:
        kind = found.text("entity_type")
        if kind not in ("topics", "clients"):
            raise found.fail(f"version 1 has no entities of type {kind[:40]!r}")
        return f"{kind}/{found.text('entity_name')}"
    if version != CHANGE_VERSION:
        raise found.fail(f"its version {version} is not known")
    return found.text("entity_path")


def encode_scram(credential: ScramCredential) -> str:
    """The value of an option named like its mechanism."""
    parts = (credential.salt, credential.stored_key, credential.server_key)
    salt, stored_key, server_key = (base64.b64encode(part).decode() for part in parts)
    return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={credential.iterations}"


def decode_scram(path: str, user: str, mechanism: ScramMechanism, text: str) -> ScramCredential:
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        salt, stored_key, server_key = (
            base64.b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
        iterations = int(fields["iterations"])
    except (KeyError, ValueError, binascii.Error) as error:
        raise MalformedZnodeError(path, f"its {mechanism.mechanism_name} credential is malformed") from error
    return ScramCredential(user, mechanism, salt, stored_key, server_key, iterations)
