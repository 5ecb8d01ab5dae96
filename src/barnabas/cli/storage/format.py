"""`barnabas storage format`: formats data folders, with the files that Apache Kafka writes.

Everything is checked before anything is written; meta.properties is written last in each folder, so that an
interrupted format counts as not formatted.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.base.ids import UUID_CHARACTERS, Uuid
from barnabas.cli.framework.exits import CommandError, Exit, UsageError, code_for
from barnabas.cli.framework.numbers import short_number
from barnabas.cli.server.node_file import node_of
from barnabas.config import Mode
from barnabas.config.node.node import Node
from barnabas.metadata.bootstrap import (
    BOOTSTRAP_FILE,
    FIRST_SNAPSHOT_FILE,
    METADATA_FOLDER,
    bootstrap_checkpoint,
    choose_levels,
    first_records,
    voters_checkpoint,
)
from barnabas.metadata.features import (
    KRAFT_VERSION,
    METADATA_VERSION,
    MetadataVersion,
    metadata_version_named,
)
from barnabas.metadata.initial_voters import InitialVoter, parse_voters
from barnabas.metadata.scram import parse_credential
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock, SystemClock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.random import Random, SystemRandom, random_uuid
from barnabas.storage.directories.meta_properties import (
    META_PROPERTIES,
    V1,
    MetaProperties,
    MetaPropertiesEnsemble,
)
from barnabas.storage.failure import explain
from barnabas.storage.refused import StorageRefused

PROGRAM = "barnabas storage format"
ALL_INTERFACES = "0.0.0.0"  # compared with, not bound  # nosec B104


@dataclass(frozen=True, slots=True)
class Plan:
    """The data to write."""

    cluster_id: str
    node: Node
    version: MetadataVersion
    kraft_version: int
    records: list[Message]
    voters: tuple[InitialVoter, ...]  # Empty for a static quorum, or if the voters are not written.

    @property
    def own_voter(self) -> InitialVoter | None:
        return next((voter for voter in self.voters if voter.node_id == self.node.node_id), None)

    def description(self, folder: str) -> str:
        """Apache Kafka's name for the kind of folder."""
        if folder != self.node.metadata_log_dir:
            return "data directory"
        if not self.voters:
            return "metadata directory"
        return "dynamic metadata voter directory" if self.own_voter else "dynamic metadata directory"


def format_folders(options: Namespace) -> int:
    disk, random, clock = FolderDisk(), SystemRandom(), SystemClock()
    node = node_of(disk, options.config)
    try:
        plan = make_plan(options, node, random)
    except ValueError as error:
        raise CommandError(str(error)) from error
    warn_of_cluster_id(plan.cluster_id)
    return format_all(plan, disk, random, clock, ignore_formatted=options.ignore_formatted)


def make_plan(options: Namespace, node: Node, random: Random) -> Plan:
    """Checks the options; raises ValueError or CommandError with Apache Kafka's messages."""
    if node.mode is not Mode.KRAFT:
        raise CommandError(
            "The kafka configuration file appears to be for a legacy cluster. "
            "Formatting is only supported for clusters in KRaft mode."
        )
    if not options.cluster_id.strip():
        raise UsageError(
            f"{PROGRAM}: the cluster id is empty; create one with `barnabas storage random-uuid`"
        )
    release = options.release_version and metadata_version_named(options.release_version)
    chosen = dict(parse_level(text) for text in options.feature)
    voters = choose_voters(options, node, random)
    version, levels = choose_levels(
        chosen,
        release or None,
        dynamic_quorum=bool(voters) or options.no_initial_controllers,
        unstable=node.settings["unstable.feature.versions.enable"],
    )
    credentials = [parse_credential(text, random) for text in options.add_scram]
    return Plan(
        cluster_id=options.cluster_id,
        node=node,
        version=version,
        kraft_version=levels[KRAFT_VERSION],
        records=first_records(version, levels, credentials),
        voters=voters,
    )


def parse_level(text: str) -> tuple[str, int]:
    """Parses `feature=level`."""
    name, equals, level = text.partition("=")
    if not equals:
        raise ValueError(f"Can't parse feature=level string {text}: equals sign not found.")
    number = short_number(level)
    if number is None:
        raise ValueError(f"Can't parse feature=level string {text}: unable to parse {level} as a short.")
    return name.strip(), number


def choose_voters(options: Namespace, node: Node, random: Random) -> tuple[InitialVoter, ...]:
    """The initial voters of a dynamic quorum, if this node writes them."""
    if options.initial_controllers is not None:
        return parse_voters(options.initial_controllers)
    if options.standalone:
        return (standalone_voter(node, random),)
    if node.is_controller and not node.voters and not options.no_initial_controllers:
        raise CommandError(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the "
            "following: --standalone, --initial-controllers, or --no-initial-controllers."
        )
    return ()


def standalone_voter(node: Node, random: Random) -> InitialVoter:
    """This node as the only voter, at its controller listener."""
    if not node.is_controller:
        raise CommandError("You can only use --standalone on a controller.")
    listener = node.listeners.advertised_controllers[0]
    host = "localhost" if listener.host in (None, ALL_INTERFACES) else listener.host
    assert host is not None  # None was replaced above.
    return InitialVoter(node.node_id, host, listener.port, random_uuid(random))


def format_all(plan: Plan, disk: Disk, random: Random, clock: Clock, *, ignore_formatted: bool) -> int:
    """Formats the folders that are not formatted yet; returns 1 if a folder failed."""
    folders = sorted({*plan.node.log_dirs, plan.node.metadata_log_dir})
    before = MetaPropertiesEnsemble.load(disk, folders)
    check_ownership(before, plan)
    if before.by_dir and not ignore_formatted:
        raise CommandError(
            f"Log directory {next(iter(before.by_dir))} is already formatted. "
            "Use --ignore-formatted to ignore this directory and format the others."
        )
    for folder, reason in before.failed.items():
        print(f"I/O error trying to read log directory {folder}. Ignoring...")
        print(reason, file=sys.stderr)
    if before.failed and not before.unformatted and not before.by_dir:
        raise CommandError("No available log directories to format.")
    if not before.unformatted:
        print("All of the log directories are already formatted.")
    refuse_files(before.unformatted, disk)
    used_ids = set(before.directory_ids.values())
    for folder in before.unformatted:
        used_ids.add(format_folder(plan, folder, disk, random, clock, used_ids))
    return Exit.FAILED if before.failed else Exit.OK


def format_folder(
    plan: Plan, folder: str, disk: Disk, random: Random, clock: Clock, used_ids: set[Uuid]
) -> Uuid:
    """Writes the files of a folder; returns its directory id."""
    description = plan.description(folder)
    print(f"Formatting {description} {folder} with {METADATA_VERSION} {plan.version}.")
    dynamic = bool(plan.voters) and folder == plan.node.metadata_log_dir
    own = plan.own_voter if dynamic else None
    directory_id = fresh_id(random, used_ids) if own is None else own.directory_id
    now_ms = clock.wall_ms()
    properties = MetaProperties(V1, plan.cluster_id, plan.node.node_id, directory_id)
    write_file(disk, folder, BOOTSTRAP_FILE, bootstrap_checkpoint(plan.records, now_ms))
    if dynamic:
        listener_name = plan.node.listeners.controller_names[0]
        voters = voters_checkpoint(plan.voters, listener_name, plan.kraft_version, now_ms)
        write_file(disk, f"{folder}/{METADATA_FOLDER}", FIRST_SNAPSHOT_FILE, voters)
    write_file(disk, folder, META_PROPERTIES, properties.encode(now_ms))
    return directory_id


def write_file(disk: Disk, folder: str, name: str, content: bytes) -> None:
    """Writes a file, and creates its folder if necessary."""
    try:
        disk.make_folder(folder)
        disk.write_atomically(f"{folder}/{name}", content)
    except OSError as error:
        message = f"Error while writing {folder}/{name}: {explain(error)}"
        raise CommandError(message, code_for(error)) from error


def fresh_id(random: Random, used_ids: set[Uuid]) -> Uuid:
    """A directory id that no other folder of this node has."""
    directory_id = random_uuid(random)
    while directory_id in used_ids:
        directory_id = random_uuid(random)
    return directory_id


def refuse_files(folders: Iterable[str], disk: Disk) -> None:
    for folder in folders:
        if disk.exists(folder) and not disk.is_folder(folder):
            raise CommandError(f"{folder} is not a directory")


def check_ownership(ensemble: MetaPropertiesEnsemble, plan: Plan) -> None:
    """Refuses to format anything if a folder belongs to another cluster or node."""
    for folder, properties in ensemble.by_dir.items():
        path = f"{folder}/{META_PROPERTIES}"
        if properties.cluster_id is not None and properties.cluster_id != plan.cluster_id:
            raise CommandError(
                f"Invalid cluster.id in: {path}. Expected {plan.cluster_id}, but read {properties.cluster_id}"
            )
        if properties.node_id is not None and properties.node_id != plan.node.node_id:
            raise CommandError(
                f"Stored node id {properties.node_id} doesn't match previous node id {plan.node.node_id} in "
                f"{path}. If you moved your data, make sure your configured node id matches. If you intend "
                "to create a new node, you should remove all data in your data directories."
            )
    try:
        ensemble.verify()
    except StorageRefused as refusal:
        raise CommandError(str(refusal)) from refusal


def warn_of_cluster_id(cluster_id: str) -> None:
    """Apache Kafka accepts any text, but tools that expect an id may not."""
    try:
        if len(cluster_id) == UUID_CHARACTERS and Uuid.parse(cluster_id):
            return
    except ValueError:
        pass
    print(
        f"The cluster id {cluster_id!r} is not an id of {UUID_CHARACTERS} characters, as "
        "`barnabas storage random-uuid` prints; it is used unchanged.",
        file=sys.stderr,
    )
