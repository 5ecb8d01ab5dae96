"""What a mode gives to its broker: the cluster's metadata, the channel to the controller, and the lifecycle.

Contains the interfaces; KRaft mode implements them in `kraft/kraft_metadata.py` and
`broker/metadata/broker_lifecycle.py`, ZooKeeper mode in `zookeeper/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.base.principals import LOCALHOST
from barnabas.broker.log_directories import LogDirectories
from barnabas.broker.metadata.broker_lifecycle import State
from barnabas.broker.timeline import Timeline
from barnabas.config.node.listeners import Endpoint
from barnabas.config.node.node import Node
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image
from barnabas.metadata.publisher import MetadataPublisher
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise
from barnabas.storage.log.names import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.replicas.hosted_partition import Transition
    from barnabas.broker.replicas.transitions import ReplicaTransitions


class TransitionPolicy(Protocol):
    """Which transitions the metadata demands of the replicas of this broker."""

    # Whether an ISR that the controller agrees to comes as a transition, too.
    isr_is_in_image: bool

    def is_stray(self, image: Image, name: TopicPartition, topic_id: Uuid | None) -> bool:
        """Whether a log that is found at the start belongs to no partition."""
        ...

    def at_start(self, image: Image, logs: Mapping[TopicPartition, Uuid]) -> Iterable[Transition]:
        """The transitions once all logs are open."""
        ...

    def kept_epoch(self, broker_epoch: int) -> int:
        """The epoch that a clean shutdown writes down (KIP-966)."""
        ...

    def carry_out(self, transitions: ReplicaTransitions, delta: Delta, then: Iterator[None]) -> None:
        """Carries out the transitions that come with a delta, and then these steps."""
        ...


class ClusterMetadata(Protocol):
    """The cluster's metadata as this node knows it, and the channel to the controller."""

    timeline: Timeline
    # Set before the start: the addresses of this node's listeners, with their actual ports.
    controller_endpoints: Sequence[Endpoint]

    @property
    def node(self) -> Node:
        """The node; in ZooKeeper mode it may get its id when the folders are opened."""
        ...

    @property
    def image(self) -> Image: ...

    @property
    def publish_errors(self) -> int: ...

    @property
    def leader_id(self) -> int:
        """The active controller as far as this node knows; -1 if there is none."""
        ...

    @property
    def is_active(self) -> bool:
        """Whether this node's controller is the active one."""
        ...

    @property
    def log_dir(self) -> str | None:
        """The directory without which there is no metadata; None if none is needed."""
        ...

    @property
    def auto_created(self) -> ErrorCode:
        """What Metadata answers about a topic that is being created."""
        ...

    @property
    def serves_before_registration(self) -> bool:
        """Whether the controller sends requests to this broker before clients are accepted."""
        ...

    def supported_features(self) -> Mapping[str, tuple[int, int]]:
        """The lowest and the highest level of each feature that this broker announces."""
        ...

    def finalized_features(self) -> tuple[Mapping[str, int], int]:
        """The levels in effect, and their epoch."""
        ...

    def controller_for_clients(self) -> int:
        """The controller that clients are told of; -1 if there is none."""
        ...

    def transition_policy(self) -> TransitionPolicy: ...

    def install(self, publisher: MetadataPublisher) -> None: ...

    def send_request(
        self,
        request: Message,
        version: int,
        principal: str,
        *,
        host: str = LOCALHOST,
        client_id: str = "",
        is_forwarded: bool = False,
    ) -> Promise[Message]:
        """A request of this broker to the active controller, wherever it is."""
        ...

    def send_for_client(
        self, request: Message, version: int, principal: str, host: str, client_id: str
    ) -> Promise[Message]:
        """A request that a client sent to this broker, authorized here."""
        ...

    def open_folders(self) -> Promise[LogDirectories]:
        """Locks and checks the log directories; raises or fails, with advice, if they cannot be used."""
        ...

    def start(self) -> Promise[None]: ...

    def stop(self) -> Promise[None]: ...


class BrokerLifecycle(Protocol):
    """The broker in the cluster, from its registration to its controlled shutdown."""

    @property
    def state(self) -> State: ...

    @property
    def broker_epoch(self) -> int: ...

    @property
    def caught_up(self) -> Promise[None]: ...

    def start(
        self,
        cluster_id: str,
        listeners: Sequence[Endpoint],
        features: Mapping[str, tuple[int, int]],
        log_dirs: Sequence[Uuid],
        previous_epoch: int | None,
    ) -> None: ...

    def ready_to_unfence(self) -> Promise[None]: ...

    def published(self) -> None: ...

    def shut_down(self) -> Promise[None]: ...

    def give_up_shutdown(self, after_ms: int) -> None: ...

    def stop(self) -> None: ...

    def dir_failed(self, directory_id: Uuid | None) -> None: ...


OnFailure = Callable[[BaseException], None]
