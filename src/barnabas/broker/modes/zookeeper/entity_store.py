"""The options of topics, brokers, users, clients and addresses in ZooKeeper: read, followed, and written.

In ZooKeeper mode the broker that is asked writes them itself, and announces it; the others read the entity
again.  Every write checks /controller, so that none happens while a migration to KRaft has it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from barnabas.broker.modes.zookeeper.entities import (
    USERS,
    Entity,
    entity_at,
    entity_of_quota,
    entity_of_resource,
    records_of,
)
from barnabas.broker.modes.zookeeper.notifications import Notifications
from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.broker.modes.zookeeper.znodes.configs import (
    decode_change,
    decode_configs,
    encode_change,
    encode_configs,
)
from barnabas.broker.modes.zookeeper.znodes.json_data import MalformedZnodeError
from barnabas.broker.network.request_steps import RequestWork, Steps, awaited
from barnabas.metadata.image import ConfigResource, Image
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.zookeeper.client import Check, SetData, ZooKeeperClient, ZooKeeperCode, ZooKeeperError

logger = logging.getLogger(__name__)

_KINDS = ("topics", "brokers", "clients", "users", "ips")


class EntityStore:
    """All of /config, in the image of one broker."""

    def __init__(
        self,
        client: ZooKeeperClient,
        image: Callable[[], Image],
        publish: Callable[[Sequence[Message]], None],
        work: RequestWork,
        clock: Clock,
    ) -> None:
        self._client = client
        self._image = image
        self._publish = publish
        self._changes = Notifications(
            client, paths.CONFIG_CHANGES, paths.CONFIG_CHANGE, self._changed, work, clock
        )

    def load(self) -> Steps[None]:
        """Watches for changes, and then reads everything: what the image has besides is removed."""
        yield from self._changes.begin()
        entities = yield from self._entities()
        gone = _entities_of(self._image()) - set(entities)
        yield from self._read(entities)
        for entity in sorted(gone, key=lambda each: each.path):
            self._take(entity, {})

    def stop(self) -> None:
        self._changes.stop()

    def _entities(self) -> Steps[list[Entity]]:
        entities = []
        for kind in _KINDS:
            names = (yield from awaited(self._client.children(f"{paths.CONFIG}/{kind}"))) or []
            for name in names:
                entities.append(entity_at(f"{kind}/{name}"))
                if kind == "users":
                    below = f"{paths.CONFIG}/users/{name}/clients"
                    clients = (yield from awaited(self._client.children(below))) or []
                    entities += [entity_at(f"users/{name}/clients/{client}") for client in clients]
        return entities

    def _read(self, entities: Sequence[Entity]) -> Steps[None]:
        znodes = yield from awaited(self._client.get_many([entity.path for entity in entities]))
        for entity, znode in zip(entities, znodes, strict=True):
            try:
                self._take(entity, decode_configs(entity.path, None if znode is None else znode.data))
            except MalformedZnodeError as error:
                logger.error("%s; it is left alone, and the options known before stay in effect", error)
            yield None

    def _take(self, entity: Entity, options: dict[str, str]) -> None:
        records = list(records_of(self._image(), entity, options))
        if records:
            self._publish(records)

    def _changed(self, path: str, data: bytes | None) -> Steps[None]:
        entity = entity_at(decode_change(path, data))
        yield from self._read([entity])

    def read_topics(self, names: Sequence[str]) -> Steps[list[Message]]:
        """The records of the options of topics that the image does not have yet."""
        entities = [Entity("topics", name) for name in names]
        znodes = yield from awaited(self._client.get_many([entity.path for entity in entities]))
        records: list[Message] = []
        image = Image()
        for entity, znode in zip(entities, znodes, strict=True):
            try:
                options = decode_configs(entity.path, None if znode is None else znode.data)
            except MalformedZnodeError as error:
                logger.error("%s; it is left alone, and the defaults are in effect", error)
                continue
            records += records_of(image, entity, options)
        return records

    # Writing

    def options_of(self, entity: Entity) -> Steps[dict[str, str]]:
        """What its znode has now."""
        znode = yield from awaited(self._client.get(entity.path))
        return decode_configs(entity.path, None if znode is None else znode.data)

    def write(self, entity: Entity, options: dict[str, str]) -> Steps[None]:
        """Writes all options of an entity and announces them; they are in effect here when this is done."""
        data = encode_configs(options)
        holder = yield from awaited(self._client.get(paths.CONTROLLER))
        checks = [] if holder is None else [Check(paths.CONTROLLER, holder.stat.version)]
        try:
            yield from awaited(self._client.transact([*checks, SetData(entity.path, data)]))
        except ZooKeeperError as error:
            if error.code is not ZooKeeperCode.NO_NODE:
                raise
            yield from awaited(self._client.create(entity.path, data, make_parents=True))
        announcement = f"{paths.CONFIG_CHANGES}/{paths.CONFIG_CHANGE}"
        yield from awaited(
            self._client.create(
                announcement, encode_change(entity.relative_path), sequential=True, make_parents=True
            )
        )
        self._take(entity, options)


def _entities_of(image: Image) -> set[Entity]:
    """The entities with options, quotas or credentials in the image."""
    resources: Iterable[tuple[int, str]] = image.configs
    return {
        *(
            entity_of_resource(kind, name)
            for kind, name in resources
            if kind in (ConfigResource.TOPIC, ConfigResource.BROKER)
        ),
        *(entity_of_quota(entity) for entity in image.quotas),
        *(Entity(USERS, user) for _, user in image.scram),
    }
