"""Who acts on the cluster's metadata: a publisher hears of every new image, with what led to it.

What lives here: the interface, as Apache Kafka's MetadataPublisher has it.  What may not: who is called, and
in which order (`loader` calls them in the order of their installation).
"""

from __future__ import annotations

from typing import Protocol

from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image


class MetadataPublisher(Protocol):
    """Makes one part of a node follow the committed metadata."""

    @property
    def name(self) -> str:
        """What the log calls it."""
        ...

    def publish(self, delta: Delta, image: Image) -> None:
        """Act on what has been committed.  The first delta begins with an empty image, and so has it all.

        An exception is reported with the publisher's name; the ones after it are called all the same.
        """
        ...
