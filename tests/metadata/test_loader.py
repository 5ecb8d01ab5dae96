"""Committed batches become deltas, which publishers hear in a fixed order."""

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
    """Notes what it hears in a list that others may share."""

    def __init__(self, name: str, heard: list[tuple[str, Delta, Image]], fault: Exception | None = None):
        self.name = name
        self._heard = heard
        self._fault = fault

    def publish(self, delta: Delta, image: Image) -> None:
        self._heard.append((self.name, delta, image))
        if self._fault is not None:
            raise self._fault


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=Uuid.from_words(7, len(name)))


def batch(last_offset: int, *records: Message) -> MetadataBatch:
    return MetadataBatch(last_offset, 1, 1_000 + last_offset, records, 10)


def test_batches_become_one_delta_that_every_publisher_hears_in_order() -> None:
    heard: list[tuple[str, Delta, Image]] = []
    loader = MetadataLoader()
    for name in ("settings", "replicas", "coordinators"):
        loader.install(Recorder(name, heard))
    loader.load([batch(0), batch(1, topic("a"))])
    assert (loader.image, heard) == (EMPTY_IMAGE, []), "what is loaded is not published yet"
    assert loader.publish()
    loader.load([batch(2, topic("bb"))])
    assert loader.publish()
    assert [name for name, _, _ in heard] == ["settings", "replicas", "coordinators"] * 2
    first, second = heard[0][1], heard[3][1]
    assert first.before is EMPTY_IMAGE
    assert (first.image.offset, first.image.timestamp_ms) == (1, 1_001)
    assert second.before is first.image
    assert second.topics == {Uuid.from_words(7, 2)}
    assert loader.image is second.image is heard[-1][2]


def test_a_publisher_that_fails_keeps_no_other_from_hearing(caplog: pytest.LogCaptureFixture) -> None:
    """F6: one fault in a delta left all that came after it in the dark."""
    heard: list[tuple[str, Delta, Image]] = []
    loader = MetadataLoader()
    loader.install(Recorder("first", heard, ZeroDivisionError("oops")))
    loader.install(Recorder("second", heard))
    loader.load([batch(0, topic("a"))])
    with caplog.at_level(logging.ERROR):
        assert loader.publish()
    assert [name for name, _, _ in heard] == ["first", "second"]
    assert "the publisher 'first' failed on the metadata up to offset 0" in caplog.text
    assert loader.publish_errors == 1
    assert "a" in loader.image.topic_ids


def test_a_transaction_is_published_with_its_end() -> None:
    # KIP-868
    heard: list[tuple[str, Delta, Image]] = []
    loader = MetadataLoader()
    loader.install(Recorder("one", heard))
    loader.load([batch(0, BeginTransactionRecord(name="x"), topic("a"))])
    assert not loader.publish(), "a snapshot of this image would lack what the transaction holds"
    assert (loader.image.offset, heard) == (-1, [])
    loader.load([batch(1, EndTransactionRecord()), batch(2, NoOpRecord())])
    assert loader.publish()
    assert (loader.image.offset, list(loader.image.topic_ids)) == (2, ["a"])


def test_a_committed_record_that_contradicts_the_image_cannot_be_loaded() -> None:
    loader = MetadataLoader()
    with pytest.raises(MetadataLoadError, match=r"up to offset 4 .* there is no topic with id"):
        loader.load([batch(4, RemoveTopicRecord(topic_id=Uuid.from_words(1, 2)))])
