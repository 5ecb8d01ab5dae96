"""What a simulated quorum of controllers has committed, as metadata: the image after each batch."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.metadata.loader import MetadataBatch, MetadataLoader
from barnabas.protocol.record_frame import read_metadata_record
from barnabas.protocol.records.metadata import TopicRecord
from barnabas.protocol.schema import Message
from barnabas.raft.rpc import FetchedBatch
from barnabas.runtime.simulated.world import InvariantError
from barnabas.testing.simulation.metadata_cluster.reference import Comparison, brief

# Every node reads the same records: they are decoded once.
_decoded: dict[bytes, Message] = {}
DECODED_MAX = 50_000


def records_of_values(values: Iterable[bytes]) -> list[Message]:
    """The records of a batch, or of a snapshot."""
    if len(_decoded) > DECODED_MAX:
        _decoded.clear()
    records = []
    for value in values:
        record = _decoded.get(value)
        if record is None:
            record = _decoded[value] = read_metadata_record(value)[0]
        records.append(record)
    return records


def metadata_batch(batch: FetchedBatch) -> MetadataBatch:
    assert isinstance(batch.data, tuple)
    return MetadataBatch(batch.end_offset - 1, batch.epoch, 0, records_of_values(batch.data), len(batch.data))


class CommittedImages:
    """Follows the committed log; every image of any node is compared with the one of its offset."""

    name = "reference"

    def __init__(self) -> None:
        # How often each topic was created.
        self.creations: dict[str, int] = {}
        self._loader = MetadataLoader()
        self.same = Comparison().same
        self._loader.install(self)
        self._images: dict[int, Image] = {-1: EMPTY_IMAGE}
        self._taken = 0
        self._violation: InvariantError | None = None

    @property
    def image(self) -> Image:
        return self._loader.image

    def follow(self, committed: list[FetchedBatch]) -> None:
        """Take what is new of the committed log."""
        for batch in committed[self._taken :]:
            self._taken += 1
            taken = metadata_batch(batch)
            for record in taken.records:
                if isinstance(record, TopicRecord):
                    self.creations[record.name] = self.creations.get(record.name, 0) + 1
            self._loader.load([taken])
            if self._loader.publish():
                self._images[taken.last_offset] = self._loader.image
            if self._violation is not None:
                raise self._violation

    def publish(self, delta: Delta, image: Image) -> None:
        """Partitions are led by a live member of their ISR, or by nobody."""
        for topic_id in image.topics if delta.brokers else delta.topics:
            topic = image.topics.get(topic_id)
            for index, state in () if topic is None else topic.partitions.items():
                leader = image.brokers.get(state.leader)
                is_led = state.leader in state.isr and leader is not None and not leader.fenced
                if state.leader >= 0 and not is_led:
                    self._violation = InvariantError(
                        f"partition {index} of {topic_id} at offset {image.offset}: {state}, led by {leader}"
                    )

    def check(self, who: str, image: Image) -> None:
        """An image of any node equals that of the log up to its offset."""
        expected = self._images.get(image.offset)
        if expected is None:
            raise InvariantError(f"{who} has an image at offset {image.offset}, which was not committed")
        if not self.same(image, expected):
            raise InvariantError(f"{who} has {brief(image)}; the log leads to {brief(expected)}")
