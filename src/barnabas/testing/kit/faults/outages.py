"""What befalls whole nodes: killed, paused, shut down.  Each lasts until its block ends."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from barnabas.testing.kit.waiting import DEFAULT_TIMEOUT_S, wait_for

if TYPE_CHECKING:
    from barnabas.metadata.image import Image
    from barnabas.testing.kit.running import Running


class Effect:
    """Something that the kit does to a cluster, until `end` is called or its block ends."""

    def __init__(self, text: str, running: Running, undo: Callable[[], None]) -> None:
        self._text = text
        self._running = running
        self._undo: Callable[[], None] | None = undo
        running.effects[self] = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """As it was before; does nothing the second time, or if the cluster has stopped."""
        undo, self._undo = self._undo, None
        self._running.effects.pop(self, None)
        if undo is not None and not self._running.is_over:
            undo()

    def __str__(self) -> str:
        return self._text


class Outage(Effect):
    """A node that does not serve; at the end of the block it does again."""

    def __init__(self, text: str, running: Running, node_id: int, undo: Callable[[], None]) -> None:
        super().__init__(text, running, undo)
        self.node_id = node_id

    def wait_election(self, timeout: float = DEFAULT_TIMEOUT_S) -> Self:
        """Until no partition is led by this node, as all other brokers know."""
        wait_for(
            lambda: self._running.call(self._is_replaced),
            timeout,
            what=f"node {self.node_id} still leads partitions",
            why=lambda: (
                "a broker that is paused or cut off keeps its leaderships until its session expires"
                " (broker.session.timeout.ms); fence=True ends it at once"
            ),
        )
        return self

    def _is_replaced(self) -> bool:
        nodes = self._running.nodes
        controller = nodes.active_controller
        if controller is None or _leads(controller.broker.metadata.image, self.node_id):
            return False
        return not any(
            _leads(node.broker.image, self.node_id) for node in nodes.brokers if node.serves(self.node_id)
        )


def _leads(image: Image, broker_id: int) -> bool:
    return any(
        partition.leader == broker_id
        for topic in image.topics.values()
        for partition in topic.partitions.values()
    )
