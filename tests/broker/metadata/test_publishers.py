"""The metadata publishers of a broker, and their order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.metadata.publishers import publishers_for
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, ConfigResource
from barnabas.protocol.records.metadata import ConfigRecord, NoOpRecord
from barnabas.protocol.schema import Message

NODE_ID = 1


class Part:
    """Records its calls."""

    def __init__(self, name: str, called: list[str]) -> None:
        self._name = name
        self._called = called

    def apply(self, delta: object) -> None:
        self._called.append(self._name)


class ImageWaitsPart:
    name = "responses"

    def __init__(self, called: list[str]) -> None:
        self._called = called

    def publish(self, delta: object, image: object) -> None:
        self._called.append(self.name)


class PartsOnly:
    """The parts of a broker that publishers use; a controller has neither replicas nor coordinators."""

    def __init__(self, *, is_broker: bool) -> None:
        self.called: list[str] = []
        self.authorizer: Any = Part("authorizer", self.called)
        self.quotas: Any = Part("quotas", self.called)
        self.connection_limits: Any = SimpleNamespace(rates=Part("connections", self.called))
        self.hosted_replicas: Any = Part("replicas", self.called) if is_broker else None
        self.hosted_coordinators: Any = Part("coordinators", self.called) if is_broker else None
        self.image_waits: Any = ImageWaitsPart(self.called)
        self.lifecycle: Any = self

    def published(self) -> None:
        self.called.append("lifecycle")

    def take_image(self, image: object) -> None:
        self.called.append("image")

    def take_settings(self) -> None:
        self.called.append("settings")


def option(resource: str) -> ConfigRecord:
    return ConfigRecord(
        resource_type=ConfigResource.BROKER, resource_name=resource, name="log.cleaner.threads", value="2"
    )


@pytest.mark.parametrize(
    ("record", "is_broker", "called"),
    [
        (
            option(""),
            True,
            "image settings authorizer quotas connections replicas coordinators responses lifecycle",
        ),
        (
            option("1"),
            True,
            "image settings authorizer quotas connections replicas coordinators responses lifecycle",
        ),
        (option("2"), True, "image authorizer quotas connections replicas coordinators responses lifecycle"),
        (NoOpRecord(), True, "image authorizer quotas connections replicas coordinators responses lifecycle"),
        (option("1"), False, "image settings authorizer quotas connections responses lifecycle"),
    ],
)
def test_the_order_is_the_same_in_every_role(record: Message, is_broker: bool, called: str) -> None:
    parts = PartsOnly(is_broker=is_broker)
    delta = Delta(EMPTY_IMAGE)
    delta.replay(record)
    for publisher in publishers_for(parts, NODE_ID):
        publisher.publish(delta, delta.image)
    assert parts.called == called.split()
