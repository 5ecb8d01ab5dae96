"""Committed batches become deltas, which are published in a fixed order."""

from __future__ import annotations

import logging

import pytest

from barnabas.base.ids import Uuid
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.metadata.loader import MetadataBatch, MetadataLoader, MetadataLoadError
from barnabas.protocol.records.metadata import (
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas.protocol.schema import Message


class Recorder:
    """Records the deltas it receives in a list that others may share."""

    def __init__(
        self, name: str, published: list[tuple[str, Delta, Image]], failure: Exception | None = None
    ):
        self.name = name
        self._published = published
        self._failure = failure

    def publish(self, delta: Delta, image: Image) -> None:
        self._published.append((self.name, delta, image))
        if self._failure is not None:
            raise self._failure


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=Uuid.from_words(7, len(name)))


def batch(last_offset: int, *records: Message) -> MetadataBatch:
    return MetadataBatch(last_offset, 1, 1_000 + last_offset, records, 10)


def test_batches_become_one_delta_for_all_publishers_in_order() -> None:
    published: list[tuple[str, Delta, Image]] = []
    loader = MetadataLoader()
    for name in ("settings", "replicas", "coordinators"):
        loader.install(Recorder(name, published))
    loader.load([batch(0), batch(1, topic("a"))])
    assert (loader.image, published) == (EMPTY_IMAGE, []), "loaded but not published yet"
    assert loader.publish()
    loader.load([batch(2, topic("bb"))])
    assert loader.publish()
    assert [name for name, _, _ in published] == ["settings", "replicas", "coordinators"] * 2
    first, second = published[0][1], published[3][1]
    assert first.before is EMPTY_IMAGE
    assert (first.image.offset, first.image.timestamp_ms) == (1, 1_001)
    assert second.before is first.image
    assert second.topics == {Uuid.from_words(7, 2)}
    assert loader.image is second.image is published[-1][2]


def test_a_failing_publisher_does_not_affect_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """F6: one failure in a delta hid it from all later publishers."""
    published: list[tuple[str, Delta, Image]] = []
    loader = MetadataLoader()
    loader.install(Recorder("first", published, ZeroDivisionError("oops")))
    loader.install(Recorder("second", published))
    loader.load([batch(0, topic("a"))])
    with caplog.at_level(logging.ERROR):
        assert loader.publish()
    assert [name for name, _, _ in published] == ["first", "second"]
    assert "the publisher 'first' failed on the metadata up to offset 0" in caplog.text
    assert loader.publish_errors == 1
    assert "a" in loader.image.topic_ids


def test_a_transaction_is_published_when_it_ends() -> None:
    # KIP-868
    published: list[tuple[str, Delta, Image]] = []
    loader = MetadataLoader()
    loader.install(Recorder("one", published))
    loader.load([batch(0, BeginTransactionRecord(name="x"), topic("a"))])
    assert not loader.publish(), "a snapshot of this image would lack the open transaction"
    assert (loader.image.offset, published) == (-1, [])
    loader.load([batch(1, EndTransactionRecord()), batch(2, NoOpRecord())])
    assert loader.publish()
    assert (loader.image.offset, list(loader.image.topic_ids)) == (2, ["a"])


def test_a_committed_record_that_contradicts_the_image_cannot_be_loaded() -> None:
    loader = MetadataLoader()
    with pytest.raises(MetadataLoadError, match=r"up to offset 4 .* there is no topic with id"):
        loader.load([batch(4, RemoveTopicRecord(topic_id=Uuid.from_words(1, 2)))])
