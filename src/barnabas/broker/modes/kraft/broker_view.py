"""What a broker sees of KRaft mode besides the metadata: see `broker.modes.metadata.ClusterMetadata`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from barnabas.base.errors import ErrorCode
from barnabas.base.principals import LOCALHOST
from barnabas.broker.log_directories import LogDirectories, open_folders
from barnabas.broker.metadata.cluster_view import shown_controller
from barnabas.broker.metadata.supported_features import supported_features
from barnabas.broker.replicas.transitions import DerivedTransitions
from barnabas.config.node.node import Node
from barnabas.metadata.features import KRAFT_VERSION, METADATA_VERSION
from barnabas.metadata.image import Image
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.random import Random


class BrokerView(ABC):
    """The answers of KRaft mode that follow from the node and its image."""

    auto_created = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    serves_before_registration = False

    _node: Node
    _disk: Disk
    _clock: Clock
    _random: Random

    @property
    @abstractmethod
    def image(self) -> Image: ...

    @property
    @abstractmethod
    def kraft_version(self) -> int: ...

    @abstractmethod
    def send_request(
        self,
        request: Message,
        version: int,
        principal: str,
        *,
        host: str = LOCALHOST,
        client_id: str = "",
        is_forwarded: bool = False,
    ) -> Promise[Message]: ...

    @property
    def node(self) -> Node:
        return self._node

    @property
    def log_dir(self) -> str | None:
        return self._node.metadata_log_dir

    def open_folders(self) -> Promise[LogDirectories]:
        """Raises StorageRefused, with advice, if one of them is not usable."""
        return Promise.of(open_folders(self._disk, self._node, self._random, self._clock))

    def supported_features(self) -> Mapping[str, tuple[int, int]]:
        return supported_features(self._node.settings)

    def finalized_features(self) -> tuple[Mapping[str, int], int]:
        image = self.image
        levels = {METADATA_VERSION: image.metadata_version, KRAFT_VERSION: self.kraft_version}
        return {**image.features, **levels}, image.offset

    def controller_for_clients(self) -> int:
        """Any live broker: clients cannot reach the controller, and every broker forwards to it."""
        return shown_controller(self.image, self._random)

    def transition_policy(self) -> DerivedTransitions:
        return DerivedTransitions(self._node.node_id)

    def send_for_client(
        self, request: Message, version: int, principal: str, host: str, client_id: str
    ) -> Promise[Message]:
        """To the active controller, wherever it is (KIP-590)."""
        return self.send_request(request, version, principal, host=host, client_id=client_id)
