"""The committed metadata log as it was first reported, and the image after each of its batches.

Every node's log and image are compared with it, byte for byte and offset for offset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter

from immutables import Map

from barnabas.batch.view import BatchView
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.metadata.loader import MetadataBatch, MetadataLoader
from barnabas.protocol.record_frame import read_metadata_record
from barnabas.protocol.records.metadata import TopicRecord
from barnabas.runtime.simulated.world import InvariantError

# Pairs of parts of images that are known to be equal.
MAX_EQUAL = 10_000
_compared = attrgetter(*(field.name for field in fields(Image) if field.name != "timestamp_ms"))


class ReferenceLog:
    """What the cluster has committed so far."""

    def __init__(self) -> None:
        self.end_offset = 0
        # The batches by their base offsets, and the image after each by its last offset.
        self.images: dict[int, Image] = {}
        # How often each topic was created.
        self.creations: dict[str, int] = {}
        self._batches: dict[int, bytes] = {}
        self._loader = MetadataLoader()
        self._comparison = Comparison()
        # Called with every image and the one before it; they raise InvariantError.
        self.listeners: list[Callable[[Image, Image], None]] = []

    @property
    def image(self) -> Image:
        return self._loader.image

    def committed(self, node_id: int, batch: BatchView) -> None:
        """A node reports a batch as committed: the next one, or one that is known."""
        content = batch.copy()
        known = self._batches.get(batch.base_offset)
        if known is None and batch.base_offset == self.end_offset:
            self._append(batch, content)
        elif known != content:
            raise InvariantError(
                f"n{node_id}: the batch at offset {batch.base_offset} (epoch {batch.leader_epoch}) is not the"
                " committed one"
            )

    def _append(self, batch: BatchView, content: bytes) -> None:
        self._batches[batch.base_offset] = content
        self.end_offset = batch.next_offset
        records = []
        if not batch.is_control:
            records = [read_metadata_record(record.value or b"")[0] for record in batch.records()]
        for record in records:
            if isinstance(record, TopicRecord):
                self.creations[record.name] = self.creations.get(record.name, 0) + 1
        self._loader.load(
            [MetadataBatch(batch.last_offset, batch.leader_epoch, batch.max_timestamp, records, batch.size)]
        )
        before = self._loader.image
        if self._loader.publish():
            self.images[batch.last_offset] = self._loader.image
            for listener in self.listeners:
                listener(before, self._loader.image)

    def has(self, batch: BatchView) -> bool:
        return self._batches.get(batch.base_offset) == batch.copy()

    def check_image(self, who: str, image: Image) -> None:
        """An image of any node equals that of the log up to its offset."""
        expected = EMPTY_IMAGE if image.offset < 0 else self.images.get(image.offset)
        if expected is None:
            raise InvariantError(f"{who} has an image at offset {image.offset}, which was not committed")
        if not self._comparison.same(image, expected):
            raise InvariantError(f"{who} has {brief(image)}; the log leads to {brief(expected)}")


class Comparison:
    """Whether images are equal, except for the timestamp: it is not that of a record after a control batch.

    Images share what has not changed, so two parts that were found equal are not compared again.
    """

    def __init__(self) -> None:
        # By their ids, which are theirs while they are kept here.
        self._equal: dict[tuple[int, int], tuple[object, object]] = {}

    def same(self, one: Image, other: Image) -> bool:
        pairs = zip(_compared(one), _compared(other), strict=True)
        return all(mine is theirs or self._is_equal(mine, theirs) for mine, theirs in pairs)

    def _is_equal(self, mine: object, theirs: object) -> bool:
        if not isinstance(mine, Map) or not isinstance(theirs, Map):
            return mine == theirs
        return self._is_known(mine, theirs) or self._are_equal(mine, theirs)

    def _are_equal(self, mine: Map[object, object], theirs: Map[object, object]) -> bool:
        """Whether two maps are, entry by entry: mostly one is new."""
        if len(mine) != len(theirs):
            return False
        for key, value in mine.items():
            other = theirs.get(key)
            if value is other or self._is_known(value, other):
                continue
            if value != other:
                return False
            self._keep(value, other)
        self._keep(mine, theirs)
        return True

    def _is_known(self, mine: object, theirs: object) -> bool:
        return (id(mine), id(theirs)) in self._equal

    def _keep(self, mine: object, theirs: object) -> None:
        if len(self._equal) >= MAX_EQUAL:
            self._equal.clear()
        self._equal[id(mine), id(theirs)] = (mine, theirs)


def brief(image: Image) -> str:
    brokers = {broker.id: (broker.epoch, broker.fenced) for broker in image.brokers.values()}
    return (
        f"offset {image.offset}, epoch {image.epoch}, topics {sorted(image.topic_ids)}, brokers {brokers},"
        f" controllers {sorted(image.controllers)}"
    )
