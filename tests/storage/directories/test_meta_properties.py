"""meta.properties: the bytes, and the rules by which a start is refused."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.ids import LOST_DIR, Uuid
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.disk_faults import Kind
from barnabas.storage.directories.meta_properties import (
    V0,
    V1,
    MetaProperties,
    MetaPropertiesEnsemble,
    read_meta_properties,
    write_meta_properties,
)
from barnabas.storage.refused import DamagedFile, FolderRefused, StorageRefused

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
ID_1, ID_2 = Uuid.parse("QNZvo6frfTevFH-wvw6L1w"), Uuid.parse("k4UaK_bzSu6FNC6colHb3w")
# Sun Nov 15 07:34:43 UTC 2026, the second at which the recorded folder was formatted.
RECORDED_MS = 1_794_728_083_000


def kraft(directory_id: Uuid | None = ID_1, cluster: str | None = CLUSTER, node: int = 1) -> MetaProperties:
    return MetaProperties(V1, cluster, node, directory_id)


def formatted(**by_dir: MetaProperties) -> tuple[MemoryDisk, list[str]]:
    disk = MemoryDisk()
    for name, properties in by_dir.items():
        disk.make_folder(f"/{name}")
        write_meta_properties(disk, f"/{name}", properties, RECORDED_MS)
    return disk, [f"/{name}" for name in by_dir]


def test_the_bytes_are_apache_kafkas(golden_logs: Path) -> None:
    # M-E1
    folder = golden_logs / "kraft-4.1.0" / "data"
    properties = read_meta_properties(FolderDisk(), str(folder))
    assert properties == MetaProperties(V1, CLUSTER, 1, ID_1)
    assert properties.encode(RECORDED_MS) == (folder / "meta.properties").read_bytes()


def test_zookeeper_mode_has_version_0(golden_logs: Path) -> None:
    # M-E1
    folder = golden_logs / "zk-3.9.1" / "data"
    properties = read_meta_properties(FolderDisk(), str(folder))
    assert properties == MetaProperties(V0, "1jytI2KGSry0Iw7f923Kww", 1)
    recorded = (folder / "meta.properties").read_bytes().splitlines()
    assert properties.encode(RECORDED_MS).splitlines()[2:] == recorded[2:]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"version=2\nnode.id=1\ncluster.id=x\n", "has version 2, only the versions 0 and 1 are known"),
        (b"version=one\n", "version=one is not a number"),
        (b"version=1\ncluster.id=x\n", "node.id is missing"),
        (b"version=1\nnode.id=1x\n", "node.id=1x is not a number"),
        (b"version=1\nnode.id=99999999999\n", "node.id=99999999999 is not a number"),
        (b"version=1\nnode.id=1\ndirectory.id=short\n", "directory.id: the id 'short'"),
        (b"version=\\u12\n", "line 1: Malformed"),
    ],
)
def test_damage_is_refused(data: bytes, fault: str) -> None:
    with pytest.raises(DamagedFile, match=re.escape(f"/d/meta.properties: {fault}")):
        MetaProperties.decode("/d/meta.properties", data)


@given(st.binary(max_size=80) | st.text("version=01node.idcluster\n\\\\u:# ").map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        properties = MetaProperties.decode("/d/meta.properties", data)
    except DamagedFile as damage:
        assert "\n" not in str(damage)
        return
    assert MetaProperties.decode("f", properties.encode(RECORDED_MS)) == properties


def test_a_huge_file_is_refused_unread() -> None:
    disk = MemoryDisk()
    disk.make_folder("/d")
    disk.write_atomically("/d/meta.properties", b"#" * 70_000)
    with pytest.raises(DamagedFile, match=r"has 70000 bytes, at most 65536"):
        read_meta_properties(disk, "/d")


def test_directories_of_one_node_are_accepted() -> None:
    disk, dirs = formatted(a=kraft(ID_1), b=kraft(ID_2))
    ensemble = MetaPropertiesEnsemble.load(disk, dirs, metadata_dir="/a")
    ensemble.verify(node_id=1)
    ensemble.require_formatted()
    assert (ensemble.cluster_id, ensemble.node_id) == (CLUSTER, 1)
    assert ensemble.directory_ids == {"/a": ID_1, "/b": ID_2}


@pytest.mark.parametrize(
    ("other", "fault"),
    [
        (
            kraft(ID_2, cluster="another"),
            f"/b/meta.properties: belongs to the cluster another, not to {CLUSTER}",
        ),
        (kraft(ID_2, node=2), "/b/meta.properties: belongs to node 2, not to node 1"),
        (kraft(ID_1), f"/b: has the same directory.id {ID_1} as /a"),
        (kraft(LOST_DIR), f"/b: has the reserved directory.id {LOST_DIR}"),
        (kraft(ID_2, cluster=None), "/b/meta.properties: cluster.id is missing"),
    ],
)
def test_a_directory_that_does_not_belong_is_refused(other: MetaProperties, fault: str) -> None:
    disk, dirs = formatted(a=kraft(ID_1), b=other)
    with pytest.raises(FolderRefused, match=re.escape(fault)) as refusal:
        MetaPropertiesEnsemble.load(disk, dirs).verify()
    assert "\n" not in str(refusal.value)


def test_the_expected_cluster_and_node_are_checked() -> None:
    disk, dirs = formatted(a=kraft())
    ensemble = MetaPropertiesEnsemble.load(disk, dirs)
    with pytest.raises(FolderRefused, match=r"belongs to the cluster"):
        ensemble.verify(cluster_id="another")
    with pytest.raises(FolderRefused, match=r"belongs to node 1, not to node 7; correct node.id"):
        ensemble.verify(node_id=7)
    with pytest.raises(FolderRefused, match=r"was formatted for KRaft"):
        ensemble.verify(require_version_0=True)


def test_an_unformatted_directory_is_refused_in_kraft_mode() -> None:
    disk, dirs = formatted(a=kraft())
    disk.make_folder("/new")
    ensemble = MetaPropertiesEnsemble.load(disk, [*dirs, "/new"])
    ensemble.verify()
    with pytest.raises(FolderRefused, match=r"^/new: is not formatted .*barnabas storage format"):
        ensemble.require_formatted()


def test_a_version_0_file_without_ids_is_not_enough_for_kraft() -> None:
    disk, dirs = formatted(a=MetaProperties(V0))
    ensemble = MetaPropertiesEnsemble.load(disk, dirs)
    ensemble.verify(cluster_id=CLUSTER, node_id=1)
    with pytest.raises(FolderRefused, match=r"lacks node.id or cluster.id"):
        ensemble.require_formatted()


def test_a_directory_that_cannot_be_read_fails_alone() -> None:
    # M-E5
    disk, dirs = formatted(a=kraft(ID_1), b=kraft(ID_2))
    disk.write_atomically("/b/meta.properties", b"version=9\n")
    ensemble = MetaPropertiesEnsemble.load(disk, dirs, metadata_dir="/a")
    ensemble.verify()
    ensemble.require_formatted()
    assert list(ensemble.failed) == ["/b"]
    with pytest.raises(FolderRefused, match=r"^/b: holds the metadata log and cannot be read: .*version 9"):
        MetaPropertiesEnsemble.load(disk, dirs, metadata_dir="/b").verify()


def test_with_no_readable_directory_the_start_is_refused() -> None:
    disk = SimulatedDisk(SeededRandom(1))
    disk.make_folder("/a")
    write_meta_properties(disk, "/a", kraft(), RECORDED_MS)
    disk.fail(1, errno.EIO, kinds={Kind.READ, Kind.OPEN}, times=9)
    with pytest.raises(StorageRefused, match=r"no meta.properties can be read: /a: the device reports"):
        MetaPropertiesEnsemble.load(disk, ["/a"]).require_formatted()


def test_directories_formatted_without_an_id_get_one() -> None:
    disk, dirs = formatted(a=kraft(ID_1), b=kraft(None))
    before = MetaPropertiesEnsemble.load(disk, dirs)
    after = before.with_directory_ids(SeededRandom(5))
    assert after.write_changes(disk, before, RECORDED_MS) == {}
    again = MetaPropertiesEnsemble.load(disk, dirs)
    assert again == after
    assert again.directory_ids["/a"] == ID_1
    assert again.directory_ids["/b"] not in (ID_1, None)


def test_zookeeper_mode_formats_its_directories_itself() -> None:
    disk, dirs = formatted(a=MetaProperties(V0, "zk-cluster", 4))
    disk.make_folder("/new")
    before = MetaPropertiesEnsemble.load(disk, [*dirs, "/new"])
    before.verify(cluster_id="zk-cluster", node_id=4, require_version_0=True)
    after = before.with_node("zk-cluster", 4)
    assert after.write_changes(disk, before, RECORDED_MS) == {}
    assert read_meta_properties(disk, "/new") == MetaProperties(V0, "zk-cluster", 4)


def test_a_directory_that_cannot_be_written_is_reported() -> None:
    disk = SimulatedDisk(SeededRandom(1))
    disk.make_folder("/a")
    before = MetaPropertiesEnsemble.load(disk, ["/a"])
    disk.fail(1, errno.ENOSPC, kinds={Kind.CREATE, Kind.WRITE}, times=9)
    failed = before.with_node("zk-cluster", 4).write_changes(disk, before, RECORDED_MS)
    assert failed == {
        "/a": "/a/meta.properties: no space is left on the device; free space there and restart",
    }


def test_directories_after_a_damaged_one_are_read() -> None:
    disk, _ = formatted(b=kraft(ID_1), d=kraft(ID_2))
    for folder in ("/a", "/c", "/e"):
        disk.make_folder(folder)
        disk.write_atomically(f"{folder}/meta.properties", b"version=77\n")
    disk.make_folder("/f")
    ensemble = MetaPropertiesEnsemble.load(disk, [f"/{name}" for name in "abcdef"])
    assert set(ensemble.failed) == {"/a", "/c", "/e"}
    assert set(ensemble.by_dir) == {"/b", "/d"}
    assert ensemble.unformatted == ("/f",)
