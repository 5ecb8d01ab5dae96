"""The metadata loader: committed batches become deltas, and deltas go to the publishers in a fixed order.

What lives here: this node's own image of what is committed, and the order in which others hear of it.  What
may not: where the batches come from (a store), and what a publisher does.

It is the same on every node, in every role and in both modes.  The controller keeps an image of its own,
which is ahead of this one by what is not committed yet.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.metadata.delta import InconsistentRecordError
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.metadata.publisher import MetadataPublisher
from barnabas.metadata.replay import Replay
from barnabas.protocol.schema import Message

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MetadataBatch:
    """One batch of the metadata log.  A control batch of the quorum has no records for us."""

    last_offset: int
    epoch: int
    timestamp_ms: int
    records: Sequence[Message]
    size: int


class MetadataLoadError(Exception):
    """A committed record cannot be applied: this node's state and the log disagree, so it must stop."""


class MetadataLoader:
    """Of one node, from its start on."""

    def __init__(self) -> None:
        # All that is committed and published.
        self.image: Image = EMPTY_IMAGE
        # How often a publisher has raised, as Apache Kafka's metadata-apply-error-count.
        self.publish_errors = 0
        self._publishers: list[MetadataPublisher] = []
        self._replay = Replay()

    def install(self, publisher: MetadataPublisher) -> None:
        """Call it after those that are installed, with everything that is published from now on."""
        self._publishers.append(publisher)

    def load(self, batches: Sequence[MetadataBatch]) -> None:
        """Take batches that are committed, in the order of the log, and publish nothing yet."""
        for batch in batches:
            try:
                self._replay.take(batch.records, batch.last_offset, batch.epoch, batch.timestamp_ms)
            except InconsistentRecordError as error:
                raise MetadataLoadError(
                    f"the committed records up to offset {batch.last_offset} of the metadata log contradict"
                    f" what is before them: {error}"
                ) from error

    def publish(self) -> bool:
        """Publish what was loaded; False while a transaction is open, as its records count together.

        In the order of installation: every node, in every role, acts on a delta in the same order.
        """
        if self._replay.in_transaction:
            return False
        delta = self._replay.take_delta()
        self.image = delta.image
        for publisher in self._publishers:
            try:
                publisher.publish(delta, delta.image)
            except Exception:
                # What is committed is committed: neither the metadata nor the other publishers may wait.
                self.publish_errors += 1
                logger.exception(
                    "the publisher %r failed on the metadata up to offset %d; what it looks after may be"
                    " out of date until this node restarts",
                    publisher.name,
                    delta.image.offset,
                )
        return True
