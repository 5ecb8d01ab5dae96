"""Responses wait for this broker's own metadata, and not for ever."""

from __future__ import annotations

from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.broker.metadata.image_waits import MAX_WAIT_MS, MAX_WAITING, ImageWaits
from barnabas.metadata.image import Image
from barnabas.protocol.records.metadata import TopicRecord
from barnabas.runtime.loop.timers import Timers
from tests.broker.worlds.fake_metadata import FakeMetadata


class Waiting:
    def __init__(self) -> None:
        self.now_ns = 0
        self.timers = Timers()
        self.metadata = FakeMetadata()
        self.waits = ImageWaits(self, self.timers)  # type: ignore[arg-type]
        self.metadata.install(self.waits)

    def monotonic_ns(self) -> int:
        return self.now_ns

    def create(self, name: str) -> None:
        self.metadata.commit(TopicRecord(name=name, topic_id=Uuid(name[0].encode() * 16)))


def has_orders(image: Image) -> bool:
    return image.topic_named("orders") is not None


def test_a_response_waits_for_the_metadata() -> None:
    waiting = Waiting()
    shown = waiting.waits.until(has_orders, waiting.metadata.image)
    waiting.create("payments")
    assert not shown.done
    waiting.create("orders")
    assert shown.done
    assert waiting.waits.until(has_orders, waiting.metadata.image).done
    assert len(waiting.timers) == 0


def test_it_does_not_wait_for_ever() -> None:
    waiting = Waiting()
    shown = waiting.waits.until(has_orders, waiting.metadata.image)
    waiting.now_ns = MAX_WAIT_MS * NS_PER_MS - 1
    waiting.timers.fire_due(waiting.now_ns)
    assert not shown.done
    waiting.now_ns += 1
    waiting.timers.fire_due(waiting.now_ns)
    assert shown.done
    waiting.create("orders")


def test_the_number_of_waiting_responses_is_bounded() -> None:
    waiting = Waiting()
    for _ in range(MAX_WAITING):
        assert not waiting.waits.until(has_orders, waiting.metadata.image).done
    assert waiting.waits.until(has_orders, waiting.metadata.image).done
