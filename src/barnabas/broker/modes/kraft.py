"""KRaft mode: the metadata log in a folder of this node, its quorum, the controller, and committed deltas."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.config.node import Node
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.chance import Random
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk import Disk
from barnabas.runtime.executor import WorkerDoor
from barnabas.runtime.later import Later
from barnabas.runtime.timers import TimerDoor


class KraftMetadata:
    """The cluster's metadata as this node knows it, and the channel to the controller."""

    def __init__(
        self,
        node: Node,
        *,
        disk: Disk,
        clock: Clock,
        random: Random,
        timers: TimerDoor,
        workers: WorkerDoor,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.image: Image = EMPTY_IMAGE
        self.cluster_id: str = ""

    def start(self) -> Later[None]:
        """Open the folder and load what it holds; done when a leader leads and its image is committed."""
        raise NotImplementedError

    def stop(self) -> Later[None]:
        """Write what is due, close the log cleanly."""
        raise NotImplementedError

    def subscribe(self, listener: Callable[[Delta], None]) -> None:
        """Hear every committed delta, in order."""
        raise NotImplementedError

    def ask(self, request: Message, version: int, principal: str) -> Later[Message]:
        """The controller channel: a request for the controller, answered when its records are committed."""
        raise NotImplementedError

    def describe_quorum(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        raise NotImplementedError
