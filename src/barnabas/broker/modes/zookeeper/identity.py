"""Who this broker is: the persistent znodes, the cluster's id, the broker's id, and the log directories.

The first broker of a cluster creates paths and id; the folders must be of this cluster and of this broker.
"""

from __future__ import annotations

from dataclasses import replace

from barnabas.broker.log_directories import LogDirectories
from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.broker.modes.zookeeper.znodes.cluster import decode_cluster_id, encode_cluster_id
from barnabas.broker.network.request_steps import Steps, awaited
from barnabas.config.errors import ConfigError
from barnabas.config.node.node import Node
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.random import Random, random_uuid
from barnabas.runtime.zookeeper.client import ZooKeeperClient, ZooKeeperCode, ZooKeeperError
from barnabas.storage.directories.log_dirs import LogDirs
from barnabas.storage.directories.meta_properties import META_PROPERTIES, MetaPropertiesEnsemble
from barnabas.storage.refused import FolderRefused


class Folders:
    """The log directories, locked before ZooKeeper is asked."""

    def __init__(self, disk: Disk, node: Node) -> None:
        self._disk = disk
        self._node = node
        self.dirs = LogDirs(disk, node.log_dirs)
        self.dirs.open()
        try:
            self.found = MetaPropertiesEnsemble.load(disk, self.dirs.live)
            own_id = node.node_id if node.node_id >= 0 else None
            self.found.verify(node_id=own_id, require_version_0=True)
        except BaseException:
            self.dirs.close()
            raise

    def check_cluster(self, cluster_id: str | None) -> None:
        """Raises if the folders are of another cluster than the one in ZooKeeper."""
        known = self.found.cluster_id
        if known is None or known == cluster_id:
            return
        path = next(path for path, each in self.found.by_dir.items() if each.cluster_id is not None)
        there = "no cluster yet" if cluster_id is None else f"the cluster {cluster_id}"
        raise FolderRefused(
            f"{path}/{META_PROPERTIES}",
            f"belongs to the cluster {known}, but zookeeper.connect="
            f"{self._node.settings['zookeeper.connect']} leads to {there}; correct zookeeper.connect, or "
            "log.dirs",
        )

    def complete(self, cluster_id: str, broker_id: int, wall_ms: int) -> LogDirectories:
        """Writes meta.properties where it is missing."""
        for path, reason in self.found.failed.items():
            self.dirs.mark_offline(path, reason)
        completed = self.found.with_node(cluster_id, broker_id)
        for path, reason in completed.write_changes(self._disk, self.found, wall_ms).items():
            self.dirs.mark_offline(path, reason)
        return LogDirectories(self.dirs, cluster_id, {})


def identify(
    client: ZooKeeperClient, folders: Folders, node: Node, random: Random, clock: Clock
) -> Steps[tuple[Node, LogDirectories]]:
    """Returns the node with its id, and its folders; raises what one line can say."""
    found = yield from awaited(client.get(paths.CLUSTER_ID))
    known = None if found is None else decode_cluster_id(paths.CLUSTER_ID, found.data)
    folders.check_cluster(known)
    for path in paths.PERSISTENT_PATHS:
        yield from _create(client, path)
    cluster_id = known or (yield from _create_cluster_id(client, str(random_uuid(random))))
    folders.check_cluster(cluster_id)
    broker_id = node.node_id if node.node_id >= 0 else folders.found.node_id
    if broker_id is None:
        broker_id = yield from _generated_id(client, node)
    settings = node.settings
    return replace(node, node_id=broker_id, settings=settings), folders.complete(
        cluster_id, broker_id, clock.wall_ms()
    )


def _create(client: ZooKeeperClient, path: str) -> Steps[None]:
    try:
        yield from awaited(client.create(path, make_parents=True))
    except ZooKeeperError as error:
        if error.code is not ZooKeeperCode.NODE_EXISTS:
            raise


def _create_cluster_id(client: ZooKeeperClient, fresh: str) -> Steps[str]:
    """Another broker may be faster: then its id is the cluster's."""
    try:
        yield from awaited(client.create(paths.CLUSTER_ID, encode_cluster_id(fresh), make_parents=True))
    except ZooKeeperError as error:
        if error.code is not ZooKeeperCode.NODE_EXISTS:
            raise
        found = yield from awaited(client.get(paths.CLUSTER_ID))
        if found is not None:
            return decode_cluster_id(paths.CLUSTER_ID, found.data)
    return fresh


def _generated_id(client: ZooKeeperClient, node: Node) -> Steps[int]:
    """Each write of /brokers/seqid gives the next number."""
    if not node.settings["broker.id.generation.enable"]:
        raise ConfigError("broker.id is not set, and broker.id.generation.enable is false; set broker.id")
    stat = yield from awaited(client.set_data(paths.BROKER_SEQUENCE, b""))
    return int(node.settings["reserved.broker.max.id"]) + stat.version
