"""A node of the simulated world that stores metadata: its formatted folder, and the requests of its broker.

Shared by the scenarios and tests of the metadata side; not a scenario itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from barnabas.base.ids import Uuid
from barnabas.broker.modes.kraft.kraft_metadata import KraftMetadata
from barnabas.config.node.node import Node as Configuration
from barnabas.config.node.node import read_node
from barnabas.metadata.bootstrap import (
    BOOTSTRAP_FILE,
    METADATA_FOLDER,
    bootstrap_checkpoint,
    choose_levels,
    first_records,
    voters_checkpoint,
)
from barnabas.metadata.features import metadata_version_named, supported_features
from barnabas.metadata.initial_voters import InitialVoter
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.raft.snapshot import FIRST_SNAPSHOT
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.simulated.world import Node
from barnabas.storage.directories.meta_properties import V1, MetaProperties, write_meta_properties

DATA = "/data"
METADATA = f"{DATA}/{METADATA_FOLDER}"
CLUSTER_ID = "0UnDgWvJQ0uZ5mQb1Yo5vA"
DIRECTORY_ID = Uuid.parse("QNZvo6frfTevFH-wvw6L1w")
NODE_ID = 1
NOW_MS = 1_700_000_000_000


def configuration(
    options: Mapping[str, object] | None = None, *, dynamic: bool = False, log_dir: str = DATA
) -> Configuration:
    """A combined node; options may be given with `_` for `.`."""
    quorum = (
        {"controller.quorum.bootstrap.servers": "localhost:19093"}
        if dynamic
        else {"controller.quorum.voters": f"{NODE_ID}@localhost:19093"}
    )
    return read_node(
        {
            "process.roles": "broker,controller",
            "node.id": str(NODE_ID),
            "listeners": "PLAINTEXT://localhost:19092,CONTROLLER://localhost:19093",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": log_dir,
            **quorum,
            **{name.replace("_", "."): str(value) for name, value in (options or {}).items()},
        }
    )


ALONE = (InitialVoter(NODE_ID, "localhost", 19093, DIRECTORY_ID),)


def format_folder(
    disk: Disk,
    log_dir: str = DATA,
    *,
    release: str = "4.1",
    dynamic: bool = False,
    node_id: int = NODE_ID,
    directory_id: Uuid = DIRECTORY_ID,
    voters: Sequence[InitialVoter] = ALONE,
) -> None:
    """The result of `storage format`, with the same ids every time; only a voter gets the voters."""
    version, levels = choose_levels(
        {}, metadata_version_named(release), dynamic_quorum=dynamic, unstable=False
    )
    disk.make_folder(log_dir)
    content = bootstrap_checkpoint(first_records(version, levels), NOW_MS)
    disk.write_atomically(f"{log_dir}/{BOOTSTRAP_FILE}", content)
    if dynamic and any(voter.node_id == node_id for voter in voters):
        folder = f"{log_dir}/{METADATA_FOLDER}"
        disk.make_folder(folder)
        content = voters_checkpoint(voters, "CONTROLLER", 1, NOW_MS)
        disk.write_atomically(f"{folder}/{FIRST_SNAPSHOT.file_name}", content)
    write_meta_properties(disk, log_dir, MetaProperties(V1, CLUSTER_ID, node_id, directory_id), NOW_MS)
    disk.sync_folder("/")


def make_metadata(
    node: Node, settings: Configuration, on_failure: Callable[[BaseException], None] | None = None
) -> KraftMetadata:
    """The metadata side of a node, not started."""
    return KraftMetadata(
        settings,
        disk=node.disk,
        clock=node.clock,
        random=node.random,
        timers=node.timers,
        workers=node.workers,
        network=node.network,
        on_failure=node.halt if on_failure is None else on_failure,
    )


def registration(
    incarnation: int = 1, *, broker_id: int = NODE_ID, previous_epoch: int = -1, rack: str | None = None
) -> BrokerRegistrationRequest:
    """A broker's registration; each restart has another incarnation id."""
    directory = DIRECTORY_ID if broker_id == NODE_ID else Uuid.from_words(broker_id, 4711)
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        incarnation_id=Uuid.from_words(broker_id, incarnation),
        listeners=[
            BrokerRegistrationRequest.Listener(
                name="PLAINTEXT", host="localhost", port=19092, security_protocol=0
            )
        ],
        features=[
            BrokerRegistrationRequest.Feature(
                name=name, min_supported_version=lowest, max_supported_version=highest
            )
            for name, (lowest, highest) in supported_features(unstable=False).items()
        ],
        rack=rack,
        log_dirs=[directory],
        previous_broker_epoch=previous_epoch,
    )


def heartbeat(
    broker_epoch: int,
    metadata_offset: int,
    *,
    broker_id: int = NODE_ID,
    want_fence: bool = False,
    want_shut_down: bool = False,
) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        current_metadata_offset=metadata_offset,
        want_fence=want_fence,
        want_shut_down=want_shut_down,
    )


def creation(
    *names: str,
    partitions: int = 1,
    replication_factor: int = 1,
    configs: dict[str, str] | None = None,
    validate_only: bool = False,
) -> CreateTopicsRequest:
    """A request to create topics with the same settings."""
    topics = [
        CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            assignments=[],
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=option, value=value)
                for option, value in (configs or {}).items()
            ],
        )
        for name in names
    ]
    return CreateTopicsRequest(topics=topics, validate_only=validate_only)
