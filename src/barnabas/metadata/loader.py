"""The metadata loader: turns committed batches into deltas and publishes them in a fixed order.

Contains this node's image of the committed metadata.  Reading the log belongs in a store, acting on a change
in a publisher.  Every node uses it, in every role and in both modes; the controller keeps a separate image
that also includes uncommitted records.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.metadata.delta import Delta, InconsistentRecordError
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.metadata.metadata_transaction import Replay
from barnabas.metadata.publisher import MetadataPublisher
from barnabas.protocol.schema import Message

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MetadataBatch:
    """One batch of the metadata log.  A control batch of the quorum has no records here."""

    last_offset: int
    epoch: int
    timestamp_ms: int
    records: Sequence[Message]
    size: int


class MetadataLoadError(Exception):
    """A committed record cannot be applied: this node's state and the log disagree, so the node must stop."""


class MetadataLoader:
    """The metadata loader of one node."""

    def __init__(self) -> None:
        # The committed and published metadata.
        self.image: Image = EMPTY_IMAGE
        # The number of publisher failures, as in Apache Kafka's metadata-apply-error-count.
        self.publish_errors = 0
        self._publishers: list[MetadataPublisher] = []
        self._replay = Replay()
        # The batches to be published next are a snapshot, which replaces the image.
        self._is_snapshot = False

    @property
    def loaded_image(self) -> Image:
        """The image with everything loaded, also what is not published yet."""
        return self._replay.delta.image

    def install(self, publisher: MetadataPublisher) -> None:
        """Add a publisher after the existing ones; it receives everything published from now on."""
        self._publishers.append(publisher)

    def begin_snapshot(self) -> None:
        """The next batches are those of a snapshot: what it does not contain has been removed meanwhile."""
        self._replay = Replay()
        self._is_snapshot = True

    def load(self, batches: Sequence[MetadataBatch]) -> None:
        """Apply committed batches in log order, without publishing them yet."""
        for batch in batches:
            try:
                self._replay.take(batch.records, batch.last_offset, batch.epoch, batch.timestamp_ms)
            except InconsistentRecordError as error:
                raise MetadataLoadError(
                    f"the committed records up to offset {batch.last_offset} of the metadata log contradict"
                    f" earlier records: {error}"
                ) from error

    def publish(self) -> bool:
        """Publish the loaded batches; returns False, publishing nothing, while a transaction is open.

        Publishers run in installation order, so every node applies a delta in the same order.
        """
        if self._replay.in_transaction:
            return False
        delta = self._replay.take_delta()
        if self._is_snapshot:
            self._is_snapshot = False
            delta = Delta.between(self.image, delta.image)
        self.image = delta.image
        for publisher in self._publishers:
            try:
                publisher.publish(delta, delta.image)
            except Exception:
                # Committed metadata cannot be rejected: a failure must not delay it or the other publishers.
                self.publish_errors += 1
                logger.exception(
                    "the publisher %r failed on the metadata up to offset %d; the state it maintains may be"
                    " out of date until this node restarts",
                    publisher.name,
                    delta.image.offset,
                )
        return True
