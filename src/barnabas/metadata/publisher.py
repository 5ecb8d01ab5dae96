"""The interface of metadata publishers, as in Apache Kafka's MetadataPublisher.

`loader` calls the publishers in the order of their installation.
"""

from __future__ import annotations

from typing import Protocol

from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image


class MetadataPublisher(Protocol):
    """Applies committed metadata to one part of a node."""

    @property
    def name(self) -> str:
        """The name used in log messages."""
        ...

    def publish(self, delta: Delta, image: Image, /) -> None:
        """Apply a committed delta.  The first delta starts from an empty image and so contains everything.

        An exception is logged with the publisher's name; the remaining publishers are still called.
        """
        ...
