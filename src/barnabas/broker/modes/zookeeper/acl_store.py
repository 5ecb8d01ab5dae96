"""The ACLs in ZooKeeper: read, followed, and written by the broker that is asked.

A znode has the ACLs of one resource pattern.  Only a broker with an authorizer has the paths and reads them.
"""

from __future__ import annotations

import hashlib
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.broker.modes.zookeeper.notifications import Notifications
from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.broker.modes.zookeeper.znodes.acls import (
    PERSISTENT_PATHS,
    TYPE_NAMES,
    AclEntry,
    Resource,
    acl_change_root,
    decode_acl_change,
    decode_acls,
    encode_acl_change,
    encode_acls,
)
from barnabas.broker.modes.zookeeper.znodes.json_data import MalformedZnodeError
from barnabas.broker.network.request_steps import RequestWork, Steps, awaited
from barnabas.metadata.image import Image
from barnabas.protocol.records.metadata import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.zookeeper.client import Znode, ZooKeeperClient, ZooKeeperCode, ZooKeeperError
from barnabas.security.acls import Operation, PatternType, Permission, ResourceType

logger = logging.getLogger(__name__)

# Several brokers may write the ACLs of one resource: whoever comes late reads them again.
MAX_ATTEMPTS = 100
_LOST_RACES = (ZooKeeperCode.BAD_VERSION, ZooKeeperCode.NODE_EXISTS, ZooKeeperCode.NO_NODE)


class AclStore:
    """All ACLs, in the image of one broker."""

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
        self._followed = [
            Notifications(client, root, paths.ACL_CHANGE, self._changed, work, clock)
            for root in (paths.ACL_CHANGES, paths.EXTENDED_ACL_CHANGES)
        ]

    def load(self) -> Steps[None]:
        """Creates the paths, watches for changes, and then reads everything."""
        for path in PERSISTENT_PATHS:
            try:
                yield from awaited(self._client.create(path, make_parents=True))
            except ZooKeeperError as error:
                if error.code is not ZooKeeperCode.NODE_EXISTS:
                    raise
        for followed in self._followed:
            yield from followed.begin()
        found: set[Resource] = set()
        for pattern in (PatternType.LITERAL, PatternType.PREFIXED):
            for kind in TYPE_NAMES:
                above = Resource(kind, "", pattern).path.rstrip("/")
                for name in (yield from awaited(self._client.children(above))) or []:
                    found.add(Resource(kind, name, pattern))
        ordered = sorted(found, key=lambda resource: resource.path)
        yield from self._read(ordered)
        for resource in {_resource_of(record) for record in self._image().acls.values()} - found:
            self._take(resource, [])

    def stop(self) -> None:
        for followed in self._followed:
            followed.stop()

    def _changed(self, path: str, data: bytes | None) -> Steps[None]:
        yield from self._read([decode_acl_change(path, data)])

    def _read(self, resources: Sequence[Resource]) -> Steps[None]:
        znodes = yield from awaited(self._client.get_many([resource.path for resource in resources]))
        for resource, znode in zip(resources, znodes, strict=True):
            try:
                self._take(resource, _entries(resource, znode))
            except MalformedZnodeError as error:
                logger.error("%s; it is left alone, and the ACLs known before stay in effect", error)
            yield None

    def _take(self, resource: Resource, entries: Iterable[AclEntry]) -> None:
        after = {_id_of(resource, entry): entry for entry in entries}
        image = self._image().acls
        before = {acl_id for acl_id, record in image.items() if _resource_of(record) == resource}
        records: list[Message] = [
            RemoveAccessControlEntryRecord(id=acl_id) for acl_id in sorted(before - after.keys())
        ]
        records += [
            _record(acl_id, resource, entry) for acl_id, entry in after.items() if acl_id not in before
        ]
        if records:
            self._publish(records)

    # Writing

    def write(self, records: Iterable[Message]) -> Steps[None]:
        """Adds and removes these ACLs, resource by resource, and announces each."""
        changes: dict[Resource, tuple[list[AclEntry], set[AclEntry]]] = defaultdict(lambda: ([], set()))
        acls = self._image().acls
        for record in records:
            if isinstance(record, AccessControlEntryRecord):
                changes[_resource_of(record)][0].append(_entry_of(record))
            elif isinstance(record, RemoveAccessControlEntryRecord) and record.id in acls:
                known = acls[record.id]
                changes[_resource_of(known)][1].add(_entry_of(known))
        for resource, (added, removed) in changes.items():
            yield from self._write_one(resource, added, removed)

    def _write_one(self, resource: Resource, added: list[AclEntry], removed: set[AclEntry]) -> Steps[None]:
        if "/" in resource.name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{resource.name} cannot be the name of a znode")
        for _ in range(MAX_ATTEMPTS):
            znode = yield from awaited(self._client.get(resource.path))
            kept = [entry for entry in _entries(resource, znode) if entry not in removed]
            entries = [*kept, *(entry for entry in added if entry not in kept)]
            try:
                yield from self._replace(resource, znode, entries)
            except ZooKeeperError as error:
                if error.code not in _LOST_RACES:
                    raise
                continue
            root = acl_change_root(resource)
            yield from awaited(
                self._client.create(
                    f"{root}/{paths.ACL_CHANGE}",
                    encode_acl_change(resource),
                    sequential=True,
                    make_parents=True,
                )
            )
            self._take(resource, entries)
            return
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"the ACLs of {resource.path} were changed by others meanwhile"
        )

    def _replace(self, resource: Resource, znode: Znode | None, entries: list[AclEntry]) -> Steps[None]:
        if znode is None:
            if entries:
                yield from awaited(
                    self._client.create(resource.path, encode_acls(entries), make_parents=True)
                )
        elif entries:
            yield from awaited(self._client.set_data(resource.path, encode_acls(entries), znode.stat.version))
        else:
            yield from awaited(self._client.delete(resource.path, znode.stat.version))


def _entries(resource: Resource, znode: Znode | None) -> Iterator[AclEntry]:
    return iter([] if znode is None else decode_acls(resource.path, znode.data))


def _id_of(resource: Resource, entry: AclEntry) -> Uuid:
    """ACLs in ZooKeeper have no ids: equal ones get equal ids."""
    parts = (resource.type, resource.name, resource.pattern, *entry)
    text = "\0".join(str(int(part)) if isinstance(part, int) else part for part in parts)
    return Uuid(hashlib.blake2b(text.encode(), digest_size=16).digest())


def _record(acl_id: Uuid, resource: Resource, entry: AclEntry) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=resource.type,
        resource_name=resource.name,
        pattern_type=resource.pattern,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


def _resource_of(record: AccessControlEntryRecord) -> Resource:
    return Resource(
        ResourceType(record.resource_type), record.resource_name, PatternType(record.pattern_type)
    )


def _entry_of(record: AccessControlEntryRecord) -> AclEntry:
    return AclEntry(
        record.principal, record.host, Operation(record.operation), Permission(record.permission_type)
    )
