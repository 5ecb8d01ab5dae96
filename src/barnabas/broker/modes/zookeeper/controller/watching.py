"""Watches: what brokers and administrators write into znodes becomes a call of the controller (M-B4, M-B6).

Each znode is read again when its watch is called, which sets the watch again.  While a reading is under way
another change of the same znode is remembered and read afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from barnabas.broker.modes.zookeeper.controller.gathering import gather
from barnabas.broker.modes.zookeeper.controller.loading import (
    TopicZnode,
    broker_ids,
    read_broker,
    read_configs,
    read_topics,
)
from barnabas.broker.modes.zookeeper.znodes import admin, paths
from barnabas.broker.modes.zookeeper.znodes.configs import decode_change
from barnabas.broker.modes.zookeeper.znodes.json_data import MalformedZnodeError
from barnabas.metadata.image import ConfigResource
from barnabas.protocol.records.metadata import RegisterBrokerRecord
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.zookeeper.client import WatchEvent, Znode, ZooKeeperClient

logger = logging.getLogger(__name__)

T = TypeVar("T")
# Notifications that are read at a time; the others follow.
MAX_NOTIFICATIONS = 1_000


class Watcher(Protocol):
    """What the watches tell, all of it while this node's controller is active."""

    def brokers_found(self, brokers: list[RegisterBrokerRecord], present: set[int]) -> None:
        """The registrations that can be read, and the ids of all."""
        ...

    def broker_changed(self, broker: RegisterBrokerRecord) -> None: ...

    def topics_found(self, names: list[str]) -> list[str]:
        """All names; returns those that are to be read."""
        ...

    def topics_added(self, topics: list[TopicZnode]) -> None: ...

    def topic_changed(self, topic: TopicZnode) -> None: ...

    def deletions_found(self, names: list[str]) -> None: ...

    def isr_changed(self, topics: list[TopicZnode]) -> None: ...

    def log_dir_failed(self, broker_id: int) -> None: ...

    def reassignment_found(self, targets: dict[admin.TopicPartition, tuple[int, ...]]) -> None: ...

    def election_found(self, partitions: list[admin.TopicPartition]) -> None: ...

    def configs_changed(self, kind: ConfigResource, name: str, configs: dict[str, str]) -> None: ...

    def remove_znode(self, path: str) -> None: ...

    def failed(self, error: BaseException) -> None: ...


class Watching:
    """The watches of one leadership: after `close` their calls are ignored."""

    def __init__(self, client: ZooKeeperClient, watcher: Watcher, broker_id: int) -> None:
        self._client = client
        self._watcher = watcher
        self._broker_id = broker_id
        self._is_open = True
        self._is_started = False
        # Topics whose znodes are watched.
        self._watched: set[str] = set()
        self._reading: set[str] = set()
        self._again: set[str] = set()
        # The last config change that was there before, or that was read.
        self._last_change: str | None = None
        self._readers: dict[str, Callable[[Promise[None]], None]] = {
            paths.BROKER_IDS: self._read_brokers,
            paths.TOPICS: self._read_topics,
            paths.DELETE_TOPICS: self._read_deletions,
            paths.ISR_CHANGES: self._read_isr_changes,
            paths.LOG_DIR_EVENTS: self._read_log_dir_events,
            paths.REASSIGN_PARTITIONS: self._read_reassignment,
            paths.PREFERRED_ELECTION: self._read_election,
            paths.CONFIG_CHANGES: self._read_config_changes,
        }

    def start(self, topics: Iterable[str]) -> None:
        """Read what loading has not read, and what has changed meanwhile; these topics are watched."""
        self._is_started = True
        self._watched.update(topics)
        changed, self._again = self._again, set()
        for path in (
            *sorted(changed),
            paths.CONFIG_CHANGES,
            paths.ISR_CHANGES,
            paths.LOG_DIR_EVENTS,
            paths.REASSIGN_PARTITIONS,
            paths.PREFERRED_ELECTION,
        ):
            self.read(path)

    def close(self) -> None:
        self._is_open = False

    def called(self, event: WatchEvent) -> None:
        """A watch of this leadership was called."""
        self.read(event.path)

    def read(self, path: str) -> None:
        if not self._is_open:
            return
        if not self._is_started:
            self._again.add(path)
            return
        reader = self._readers.get(path)
        if reader is None:
            parent, _, name = path.rpartition("/")
            if parent == paths.TOPICS:
                reader = self._topic_reader(name)
            elif parent == paths.BROKER_IDS:
                reader = self._broker_reader(name)
            else:
                return
        if path in self._reading:
            self._again.add(path)
            return
        self._reading.add(path)
        done: Promise[None] = Promise()
        done.then(lambda _: self._done(path), self._failed)
        reader(done)

    def _done(self, path: str) -> None:
        self._reading.discard(path)
        if path in self._again:
            self._again.discard(path)
            self.read(path)

    def _failed(self, error: BaseException) -> None:
        if self._is_open:
            self._watcher.failed(error)

    def _then(self, promise: Promise[T], done: Promise[None], action: Callable[[T], None]) -> None:
        """Acts on what was read, unless the leadership has ended; a bug there must not stop the watches."""

        def act(value: T) -> None:
            if self._is_open:
                try:
                    action(value)
                except Exception as error:
                    logger.exception("the controller could not act on a change in ZooKeeper")
                    done.fail(error)

        promise.then(act, done.fail)

    # Brokers and topics

    def _read_brokers(self, done: Promise[None]) -> None:
        def listed(names: list[str] | None) -> None:
            ids = broker_ids(names)
            znodes = gather([self._client.get(paths.broker(id_), self.called) for id_ in ids])
            self._then(znodes, done, lambda found: read(ids, found))

        def read(ids: list[int], znodes: list[Znode | None]) -> None:
            found = [read_broker(id_, znode) for id_, znode in zip(ids, znodes, strict=True)]
            present = {id_ for id_, znode in zip(ids, znodes, strict=True) if znode is not None}
            self._watcher.brokers_found([each for each in found if each is not None], present)
            done.set(None)

        self._then(self._client.children(paths.BROKER_IDS, self.called), done, listed)

    def _broker_reader(self, name: str) -> Callable[[Promise[None]], None]:
        def reader(done: Promise[None]) -> None:
            def read(znode: Znode | None) -> None:
                record = read_broker(int(name), znode)
                if record is not None:
                    self._watcher.broker_changed(record)
                done.set(None)

            if name.isdecimal():
                self._then(self._client.get(paths.broker(int(name)), self.called), done, read)
            else:
                done.set(None)

        return reader

    def _read_topics(self, done: Promise[None]) -> None:
        def listed(names: list[str] | None) -> None:
            new = self._watcher.topics_found(names or [])
            self._watched.intersection_update(names or [])
            for name in set(names or []) - self._watched - set(new):
                # This controller has created it.
                self.read(paths.topic(name))
            self._watched.update(names or [])
            if not new:
                done.set(None)
                return
            self._then(read_topics(self._client, new, self.called), done, added)

        def added(topics: list[TopicZnode]) -> None:
            self._watcher.topics_added(topics)
            done.set(None)

        self._then(self._client.children(paths.TOPICS, self.called), done, listed)

    def _topic_reader(self, name: str) -> Callable[[Promise[None]], None]:
        def reader(done: Promise[None]) -> None:
            def read(topics: list[TopicZnode]) -> None:
                for topic in topics:
                    self._watcher.topic_changed(topic)
                done.set(None)

            self._then(read_topics(self._client, [name], self.called), done, read)

        return reader

    # Requests and notifications

    def _read_deletions(self, done: Promise[None]) -> None:
        def listed(names: list[str] | None) -> None:
            self._watcher.deletions_found(names or [])
            done.set(None)

        self._then(self._client.children(paths.DELETE_TOPICS, self.called), done, listed)

    def _read_notifications(
        self, root: str, done: Promise[None], act: Callable[[dict[str, Znode]], None]
    ) -> None:
        """Reads the znodes below this one, acts on them, and removes them."""

        def listed(names: list[str] | None) -> None:
            chosen = [f"{root}/{name}" for name in (names or [])[:MAX_NOTIFICATIONS]]
            if len(names or []) > MAX_NOTIFICATIONS:
                self._again.add(root)
            self._then(self._client.get_many(chosen), done, lambda znodes: read(chosen, znodes))

        def read(chosen: Sequence[str], znodes: list[Znode | None]) -> None:
            act({path: znode for path, znode in zip(chosen, znodes, strict=True) if znode is not None})
            for path in chosen:
                self._watcher.remove_znode(path)
            done.set(None)

        self._then(self._client.children(root, self.called), done, listed)

    def _read_isr_changes(self, done: Promise[None]) -> None:
        def act(znodes: dict[str, Znode]) -> None:
            names: dict[str, None] = {}
            for path, znode in znodes.items():
                try:
                    names.update((topic, None) for topic, _ in admin.decode_partitions(path, znode.data))
                except MalformedZnodeError as error:
                    logger.error("%s; this notification is ignored", error)
            if names:
                ignored: Promise[None] = Promise()
                ignored.then(lambda _: None, self._failed)
                self._then(read_topics(self._client, list(names), None), ignored, self._watcher.isr_changed)

        self._read_notifications(paths.ISR_CHANGES, done, act)

    def _read_log_dir_events(self, done: Promise[None]) -> None:
        def act(znodes: dict[str, Znode]) -> None:
            for path, znode in znodes.items():
                try:
                    self._watcher.log_dir_failed(admin.decode_log_dir_event(path, znode.data))
                except MalformedZnodeError as error:
                    logger.error("%s; this notification is ignored", error)

        self._read_notifications(paths.LOG_DIR_EVENTS, done, act)

    def _read_reassignment(self, done: Promise[None]) -> None:
        def read(znode: Znode | None) -> None:
            if znode is not None:
                try:
                    targets = admin.decode_reassignment(paths.REASSIGN_PARTITIONS, znode.data)
                except MalformedZnodeError as error:
                    logger.error("%s; it is left alone", error)
                else:
                    self._watcher.reassignment_found(targets)
            done.set(None)

        self._then(self._client.get(paths.REASSIGN_PARTITIONS, self.called), done, read)

    def _read_election(self, done: Promise[None]) -> None:
        def read(znode: Znode | None) -> None:
            if znode is not None:
                try:
                    partitions = admin.decode_partitions(paths.PREFERRED_ELECTION, znode.data)
                except MalformedZnodeError as error:
                    logger.error("%s; it is left alone", error)
                else:
                    self._watcher.election_found(partitions)
            done.set(None)

        self._then(self._client.get(paths.PREFERRED_ELECTION, self.called), done, read)

    # Options

    def _read_config_changes(self, done: Promise[None]) -> None:
        def listed(names: list[str] | None) -> None:
            changes = sorted(name for name in names or [] if name.startswith(paths.CONFIG_CHANGE))
            last, self._last_change = self._last_change, changes[-1] if changes else self._last_change or ""
            new = [] if last is None else [name for name in changes if name > last]
            found = self._client.get_many([f"{paths.CONFIG_CHANGES}/{name}" for name in new])
            self._then(found, done, lambda znodes: read(new, znodes))

        def read(new: Sequence[str], znodes: list[Znode | None]) -> None:
            entities: dict[str, None] = {}
            for name, znode in zip(new, znodes, strict=True):
                path = f"{paths.CONFIG_CHANGES}/{name}"
                try:
                    if znode is not None:
                        entities[decode_change(path, znode.data)] = None
                except MalformedZnodeError as error:
                    logger.error("%s; this notification is ignored", error)
            wanted = [entity for entity in entities if self._resource(entity) is not None]
            options = self._client.get_many([f"{paths.CONFIG}/{entity}" for entity in wanted])
            self._then(options, done, lambda found: apply(wanted, found))

        def apply(wanted: Sequence[str], znodes: list[Znode | None]) -> None:
            for entity, znode in zip(wanted, znodes, strict=True):
                resource = self._resource(entity)
                assert resource is not None, "it was chosen for this"
                configs = read_configs(f"{paths.CONFIG}/{entity}", znode)
                self._watcher.configs_changed(*resource, configs)
            done.set(None)

        self._then(self._client.children(paths.CONFIG_CHANGES, self.called), done, listed)

    def _resource(self, entity: str) -> tuple[ConfigResource, str] | None:
        """What the controller itself needs: options of topics, and of its own broker."""
        kind, _, name = entity.partition("/")
        if kind == "topics" and name and "/" not in name:
            return ConfigResource.TOPIC, name
        if kind == "brokers" and name == paths.DEFAULT_ENTITY:
            return ConfigResource.BROKER, ""
        if kind == "brokers" and name == str(self._broker_id):
            return ConfigResource.BROKER, name
        return None
