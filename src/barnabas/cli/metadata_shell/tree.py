"""An image as a tree, with the names and lines of Apache Kafka's shell.

Contains the structure of the tree; the text of a registration belongs in `texts`, path lookup in `paths`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from barnabas import __version__
from barnabas.base.ids import Uuid
from barnabas.cli.metadata_shell import texts
from barnabas.cli.metadata_shell.nodes import Folder, Leaf, Node, folder
from barnabas.metadata.features import METADATA_VERSION
from barnabas.metadata.image import ConfigResource, Image, QuotaEntity
from barnabas.metadata.scram import ScramMechanism
from barnabas.metadata.topics import Topic
from barnabas.protocol.json_form import java_double

FINALIZED = "finalized_"
ZK_MIGRATION_STATE = "zkMigrationState"
_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")
V = TypeVar("V")


def root(image: Image) -> Folder:
    local = folder({"version": Leaf(__version__), "commitId": Leaf("unknown")})
    return folder({"image": _image(image), "local": local})


def _image(image: Image) -> Folder:
    return folder(
        {
            "acls": folder({"byId": _by_uuid(image.acls, lambda rule: Leaf(texts.acl(rule)))}),
            "clientQuotas": _quotas(image),
            "cluster": folder(
                {
                    "brokers": _by_number(image.brokers, lambda broker: Leaf(texts.broker(broker))),
                    "controllers": _by_number(
                        image.controllers, lambda controller: Leaf(texts.controller(controller))
                    ),
                }
            ),
            "configs": _configs(image),
            "delegationToken": _by_name(image.tokens, lambda token: Leaf(texts.token(token))),
            "features": _features(image),
            "producerIds": folder({"nextProducerId": Leaf(str(image.next_producer_id))}),
            "provenance": Leaf(texts.provenance(image)),
            "scram": _scram(image),
            "topics": folder(
                {
                    "byId": _by_uuid(image.topics, _topic),
                    "byName": Folder(lambda: image.topic_ids, lambda name: _topic_named(image, name)),
                }
            ),
        }
    )


def _features(image: Image) -> Folder:
    def names() -> Iterable[str]:
        yield "metadataVersion"
        # Apache Kafka 4 still lists this name, without a node.
        yield ZK_MIGRATION_STATE
        yield from (FINALIZED + name for name in image.features if name != METADATA_VERSION)

    def child(name: str) -> Node | None:
        if name == "metadataVersion":
            return Leaf(texts.metadata_version(image))
        if name.startswith(FINALIZED):
            return Leaf(str(image.features.get(name.removeprefix(FINALIZED), 0)))
        return None

    return Folder(names, child)


def _topic_named(image: Image, name: str) -> Node | None:
    topic = image.topic_named(name)
    return None if topic is None else _topic(topic)


def _topic(topic: Topic) -> Folder:
    def names() -> Iterable[str]:
        return ("name", "id", *map(str, topic.partitions))

    def child(name: str) -> Node | None:
        if name == "name":
            return Leaf(topic.name)
        if name == "id":
            return Leaf(str(topic.id))
        partition = topic.partitions.get(_number(name))
        return None if partition is None else Leaf(texts.partition(partition))

    return Folder(names, child)


def _configs(image: Image) -> Folder:
    options = {_resource_name(kind, name): values for (kind, name), values in image.configs.items()}
    return _by_name(options, lambda values: _by_name(values, Leaf))


def _resource_name(kind: int, name: str) -> str:
    type_name = ConfigResource(kind).name if kind in ConfigResource.__members__.values() else "UNKNOWN"
    return f"{type_name}:{name}" if name else type_name


def _quotas(image: Image) -> Folder:
    quotas = {quota_name(entity): values for entity, values in image.quotas.items()}
    return _by_name(quotas, lambda values: _by_name(values, lambda value: Leaf(java_double(value))))


def quota_name(entity: QuotaEntity) -> str:
    """`clientId(a)_user(b)`; parentheses and backslashes in names are escaped, defaults are empty."""
    labels = {"client-id": "clientId", "ip": "ip", "user": "user"}
    named = dict(entity)
    return "_".join(
        f"{label}({_escaped(named[kind] or '')})" for kind, label in labels.items() if kind in named
    )


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def _scram(image: Image) -> Folder:
    def of(mechanism: ScramMechanism) -> Folder:
        users = {name: record for (kind, name), record in image.scram.items() if kind == mechanism}
        return _by_name(users, lambda record: Leaf(texts.scram(record)))

    return folder({mechanism.mechanism_name: of(mechanism) for mechanism in ScramMechanism})


# Folders over the maps of an image --------------------------------------------------------------------------


def _by_name(entries: Mapping[str, V], node: Callable[[V], Node]) -> Folder:
    def child(name: str) -> Node | None:
        return node(entries[name]) if name in entries else None

    return Folder(lambda: entries, child)


def _by_number(entries: Mapping[int, V], node: Callable[[V], Node]) -> Folder:
    def child(name: str) -> Node | None:
        number = _number(name)
        return node(entries[number]) if number in entries else None

    return Folder(lambda: map(str, entries), child)


def _by_uuid(entries: Mapping[Uuid, V], node: Callable[[V], Node]) -> Folder:
    def child(name: str) -> Node | None:
        try:
            uuid = Uuid.parse(name)
        except ValueError:
            return None
        return node(entries[uuid]) if uuid in entries else None

    return Folder(lambda: map(str, entries), child)


def _number(name: str) -> int:
    """The number in a name, as Java parses it; -1, which is never an id, if it is not a number."""
    return int(name) if _NUMBER.fullmatch(name) else -1
