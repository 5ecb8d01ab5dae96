"""`barnabas storage info`: the cluster and node of the data folders, and problems with them."""

from __future__ import annotations

from barnabas.cli.framework.exits import Exit
from barnabas.cli.server.node_file import node_of
from barnabas.config import Mode
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.storage.directories.meta_properties import V0, MetaProperties, read_meta_properties
from barnabas.storage.refused import DamagedFile


def show_info(config: str) -> int:
    """Prints the findings; returns 1 if there is a problem."""
    disk = FolderDisk()
    node = node_of(disk, config)
    folders = sorted({*node.log_dirs, node.metadata_log_dir})
    found, properties, problems = examine(disk, folders)
    if properties:
        problems += _mode_problems(node.mode, properties[0])
    if found:
        print("Found log directory:" if len(found) == 1 else "Found log directories:")
        print("".join(f"  {folder}\n" for folder in found))
    if properties:
        print(f"Found metadata: {metadata_text(properties[0])}\n")
    if problems:
        print("Found problem:" if len(problems) == 1 else "Found problems:")
        print("".join(f"  {problem}\n" for problem in problems))
    return Exit.FAILED if problems else Exit.OK


def examine(disk: Disk, folders: list[str]) -> tuple[list[str], list[MetaProperties], list[str]]:
    """The folders that exist, their meta properties, and the problems."""
    found: list[str] = []
    properties: list[MetaProperties] = []
    problems: list[str] = []
    for folder in folders:
        if not disk.is_folder(folder):
            problems.append(f"{folder} {'is not a directory' if disk.exists(folder) else 'does not exist'}")
            continue
        found.append(folder)
        try:
            current = read_meta_properties(disk, folder)
        except (DamagedFile, OSError) as error:
            problems.append(f"Error loading {error}")
            continue
        if current is None:
            problems.append(f"{folder} is not formatted.")
        elif properties and properties[0].cluster_id != current.cluster_id:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif properties and properties[0].node_id != current.node_id:
            problems.append("Mismatched node IDs between storage directories.")
        else:
            properties.append(current)
    return found, properties, problems


def metadata_text(properties: MetaProperties) -> str:
    """As Java prints a sorted map."""
    values = {
        "broker.id" if properties.version == V0 else "node.id": properties.node_id,
        "cluster.id": properties.cluster_id,
        "directory.id": properties.directory_id,
        "version": properties.version,
    }
    pairs = (f"{key}={values[key]}" for key in sorted(values) if values[key] is not None)
    return "{" + ", ".join(pairs) + "}"


def _mode_problems(mode: Mode, properties: MetaProperties) -> list[str]:
    start = "The kafka configuration file appears to be for a"
    if mode is Mode.KRAFT and properties.version == V0:
        return [f"{start} cluster in KRaft mode, but the directories are formatted for legacy mode."]
    if mode is Mode.ZOOKEEPER and properties.version != V0:
        return [f"{start} legacy cluster, but the directories are formatted for a cluster in KRaft mode."]
    return []
