"""`meta.properties`: which cluster and node a log directory belongs to.

Contains the file format, the files of all log directories, and the rules by which a broker accepts them or
fails to start.  Formatting belongs in the command line.

Version 0 is for ZooKeeper mode (broker.id and cluster.id may be missing), version 1 for KRaft.  Each
directory of a KRaft node has its own id (KIP-858).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from barnabas.base.ids import Uuid
from barnabas.config.values.properties import PropertiesError, dumps, loads
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.random import Random, random_uuid
from barnabas.storage.directories.checkpoints import parse_number
from barnabas.storage.failure import explain
from barnabas.storage.refused import DamagedFile, FolderRefused, StorageRefused

META_PROPERTIES = "meta.properties"
V0 = 0
V1 = 1
MAX_BYTES = 64 * 1024
SHOWN_CHARACTERS = 40
# The first hundred ids stand for states of a replica's directory, not for directories.
RESERVED_IDS = 100


def is_reserved(directory_id: Uuid) -> bool:
    return directory_id.most_significant == 0 and directory_id.least_significant < RESERVED_IDS


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The content of one file."""

    version: int
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: Uuid | None = None

    def encode(self, wall_ms: int) -> bytes:
        """The bytes that Apache Kafka writes: keys in the order of Java's hash table, under the date."""
        values: dict[str, str] = {}
        if self.node_id is not None:
            values["broker.id" if self.version == V0 else "node.id"] = str(self.node_id)
        if self.directory_id is not None:
            values["directory.id"] = str(self.directory_id)
        values["version"] = str(self.version)
        if self.cluster_id is not None:
            values["cluster.id"] = self.cluster_id
        return dumps(values, comments="", time_ms=wall_ms)

    @classmethod
    def decode(cls, path: str, data: bytes) -> MetaProperties:
        try:
            values = loads(data)
        except PropertiesError as error:
            raise DamagedFile(path, str(error)) from error
        version = _integer(path, values, "version", required=False)
        if version is None:
            version = V0
        if version not in (V0, V1):
            raise DamagedFile(path, f"has version {version}, only the versions 0 and 1 are known")
        return cls(
            version=version,
            cluster_id=values.get("cluster.id"),
            node_id=_integer(
                path, values, "broker.id" if version == V0 else "node.id", required=version == V1
            ),
            directory_id=_directory_id(path, values.get("directory.id")),
        )


def _integer(path: str, values: Mapping[str, str], key: str, *, required: bool) -> int | None:
    text = values.get(key)
    if text is None:
        if required:
            raise DamagedFile(path, f"{key} is missing")
        return None
    number = parse_number(text, 32)
    if number is None:
        raise DamagedFile(path, f"{key}={_shown(text)} is not a number")
    return number


def _directory_id(path: str, text: str | None) -> Uuid | None:
    if text is None:
        return None
    try:
        return Uuid.parse(text)
    except ValueError as error:
        raise DamagedFile(path, f"directory.id: {error}") from error


def _shown(text: str) -> str:
    """A value from the file for a message: shortened, and without control characters."""
    text = text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."
    return text if text.isprintable() else repr(text)


def read_meta_properties(disk: Disk, log_dir: str) -> MetaProperties | None:
    """None if the directory has no such file: it is not formatted."""
    path = f"{log_dir}/{META_PROPERTIES}"
    if not disk.exists(path):
        return None
    size = disk.size(path)
    if size > MAX_BYTES:
        raise DamagedFile(path, f"has {size} bytes, at most {MAX_BYTES} are allowed")
    return MetaProperties.decode(path, disk.read_bytes(path))


def write_meta_properties(disk: Disk, log_dir: str, properties: MetaProperties, wall_ms: int) -> None:
    disk.write_atomically(f"{log_dir}/{META_PROPERTIES}", properties.encode(wall_ms))


@dataclass(frozen=True, slots=True)
class MetaPropertiesEnsemble:
    """The files of all log directories; `unformatted` have none, `failed` one that cannot be read (why)."""

    by_dir: Mapping[str, MetaProperties]
    unformatted: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    metadata_dir: str | None = None

    @classmethod
    def load(
        cls, disk: Disk, log_dirs: Iterable[str], metadata_dir: str | None = None
    ) -> MetaPropertiesEnsemble:
        """Read them all, the metadata log's directory included."""
        found: dict[str, MetaProperties] = {}
        unformatted: list[str] = []
        failed: dict[str, str] = {}
        for log_dir in sorted({*log_dirs, *([] if metadata_dir is None else [metadata_dir])}):
            try:
                properties = read_meta_properties(disk, log_dir)
            except DamagedFile as damage:
                failed[log_dir] = str(damage)
                continue
            except OSError as error:
                failed[log_dir] = f"{log_dir}: {explain(error)}"
                continue
            if properties is None:
                unformatted.append(log_dir)
            else:
                found[log_dir] = properties
        return cls(found, tuple(unformatted), failed, metadata_dir)

    @property
    def cluster_id(self) -> str | None:
        return next((p.cluster_id for p in self.by_dir.values() if p.cluster_id is not None), None)

    @property
    def node_id(self) -> int | None:
        return next((p.node_id for p in self.by_dir.values() if p.node_id is not None), None)

    @property
    def directory_ids(self) -> dict[str, Uuid]:
        return {d: p.directory_id for d, p in self.by_dir.items() if p.directory_id is not None}

    def verify(
        self, *, cluster_id: str | None = None, node_id: int | None = None, require_version_0: bool = False
    ) -> None:
        """Raises for directories of another cluster or node, and for ids that two directories share.

        Without expected values, the first directory sets them for the others.
        """
        seen: dict[Uuid, str] = {}
        for log_dir, properties in self.by_dir.items():
            path = f"{log_dir}/{META_PROPERTIES}"
            if require_version_0 and properties.version != V0:
                raise FolderRefused(
                    path, "was formatted for KRaft; ZooKeeper mode without migration takes version 0 only"
                )
            cluster_id = self._verify_cluster(path, properties, cluster_id)
            node_id = self._verify_node(path, properties, node_id)
            self._verify_directory(log_dir, properties.directory_id, seen)
        if self.metadata_dir is not None and self.metadata_dir in self.failed:
            raise FolderRefused(
                self.metadata_dir,
                f"holds the metadata log and cannot be read: {self.failed[self.metadata_dir]}",
            )

    def _verify_cluster(self, path: str, properties: MetaProperties, expected: str | None) -> str | None:
        if properties.cluster_id is None:
            if properties.version == V1:
                raise FolderRefused(path, "cluster.id is missing; format the directory again")
            return expected
        if expected is not None and properties.cluster_id != expected:
            raise FolderRefused(
                path,
                f"belongs to the cluster {_shown(properties.cluster_id)}, not to {expected};"
                " correct log.dirs or use an empty folder",
            )
        return properties.cluster_id

    def _verify_node(self, path: str, properties: MetaProperties, expected: int | None) -> int | None:
        if properties.node_id is None:
            return expected
        if expected is not None and properties.node_id != expected:
            raise FolderRefused(
                path,
                f"belongs to node {properties.node_id}, not to node {expected}; correct node.id if the data"
                " was moved here, or use an empty folder for a new node",
            )
        return properties.node_id

    def _verify_directory(self, log_dir: str, directory_id: Uuid | None, seen: dict[Uuid, str]) -> None:
        if directory_id is None:
            return
        if is_reserved(directory_id):
            raise FolderRefused(log_dir, f"has the reserved directory.id {directory_id}; format it again")
        other = seen.setdefault(directory_id, log_dir)
        if other != log_dir:
            raise FolderRefused(
                log_dir, f"has the same directory.id {directory_id} as {other}: one is a copy; remove it"
            )

    def require_formatted(self) -> None:
        """KRaft mode: every readable directory must be formatted, and there must be at least one."""
        if not self.by_dir and self.failed:
            raise StorageRefused(f"no meta.properties can be read: {'; '.join(self.failed.values())}")
        if self.unformatted:
            raise FolderRefused(
                self.unformatted[0],
                f"is not formatted ({META_PROPERTIES} is missing); run `barnabas storage format` on it first",
            )
        for log_dir, properties in self.by_dir.items():
            if properties.node_id is None or properties.cluster_id is None:
                raise FolderRefused(
                    log_dir, f"{META_PROPERTIES} lacks node.id or cluster.id; format it again"
                )

    def with_directory_ids(self, random: Random) -> MetaPropertiesEnsemble:
        """KRaft mode: directories formatted before KIP-858 get an id."""
        taken = set(self.directory_ids.values())
        completed = {}
        for log_dir, properties in self.by_dir.items():
            if properties.directory_id is None:
                fresh = random_uuid(random)
                while fresh in taken or is_reserved(fresh):
                    fresh = random_uuid(random)
                taken.add(fresh)
                properties = replace(properties, directory_id=fresh)
            completed[log_dir] = properties
        return replace(self, by_dir=completed)

    def with_node(self, cluster_id: str, node_id: int) -> MetaPropertiesEnsemble:
        """ZooKeeper mode: the cluster formats its directories itself, new ones with version 0."""
        completed = {
            log_dir: replace(
                self.by_dir.get(log_dir, MetaProperties(V0)), cluster_id=cluster_id, node_id=node_id
            )
            for log_dir in sorted([*self.by_dir, *self.unformatted])
        }
        return replace(self, by_dir=completed, unformatted=())

    def write_changes(self, disk: Disk, before: MetaPropertiesEnsemble, wall_ms: int) -> dict[str, str]:
        """Write what differs from `before`; returns the directories that could not be written, and why."""
        failed: dict[str, str] = {}
        for log_dir, properties in self.by_dir.items():
            if before.by_dir.get(log_dir) != properties:
                try:
                    write_meta_properties(disk, log_dir, properties, wall_ms)
                except OSError as error:
                    failed[log_dir] = f"{log_dir}/{META_PROPERTIES}: {explain(error)}"
        return failed
