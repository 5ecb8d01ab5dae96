"""The metadata publishers of a broker, in their order.

The order is the same on every node and in every role.  Image and settings come first: all others read them
from the broker.  Authorizer and quotas follow, before any new partition can be used; then the replicas and
the coordinators, whose shards depend on replicas.  Then responses that report a change may be sent.  The
lifecycle is last: it may have clients accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from barnabas.broker.coordinators.coordinators import Coordinators
from barnabas.broker.metadata.image_waits import ImageWaits
from barnabas.broker.modes.metadata import BrokerLifecycle
from barnabas.broker.network.connection_limits import ConnectionLimits
from barnabas.broker.quotas.client_quotas import Quotas
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.security.authorizer import Authorizer
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import ConfigResource, Image
from barnabas.metadata.publisher import MetadataPublisher


class PublishingBroker(Protocol):
    """The parts of a broker that publishers update.  Replicas and coordinators start after the metadata."""

    @property
    def authorizer(self) -> Authorizer: ...

    @property
    def quotas(self) -> Quotas: ...

    @property
    def connection_limits(self) -> ConnectionLimits: ...

    @property
    def lifecycle(self) -> BrokerLifecycle: ...

    @property
    def image_waits(self) -> ImageWaits: ...

    @property
    def hosted_replicas(self) -> ReplicaManager | None: ...

    @property
    def hosted_coordinators(self) -> Coordinators | None: ...

    def take_image(self, image: Image) -> None: ...

    def take_settings(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Publisher:
    """A `metadata.publisher.MetadataPublisher` whose `publish` is one function, called without a detour."""

    name: str
    publish: Callable[[Delta, Image], None]


def publishers_for(broker: PublishingBroker, node_id: int) -> list[MetadataPublisher]:
    """Returns all publishers in order."""
    return [
        _Publisher("image", partial(_publish_image, broker)),
        _Publisher("settings", partial(_publish_settings, broker, node_id)),
        _Publisher("authorizer", partial(_publish_acls, broker)),
        _Publisher("quotas", partial(_publish_quotas, broker)),
        _Publisher("replicas", partial(_publish_replicas, broker)),
        _Publisher("coordinators", partial(_publish_coordinators, broker)),
        broker.image_waits,
        _Publisher("lifecycle", partial(_publish_lifecycle, broker)),
    ]


def _publish_image(broker: PublishingBroker, delta: Delta, image: Image) -> None:
    broker.take_image(image)


def _publish_settings(broker: PublishingBroker, node_id: int, delta: Delta, image: Image) -> None:
    """Applies dynamic options of this broker or of all brokers (KIP-226)."""
    own = (ConfigResource.BROKER, str(node_id))
    if own in delta.configs or (ConfigResource.BROKER, "") in delta.configs:
        broker.take_settings()


def _publish_acls(broker: PublishingBroker, delta: Delta, image: Image) -> None:
    broker.authorizer.apply(delta)


def _publish_quotas(broker: PublishingBroker, delta: Delta, image: Image) -> None:
    broker.quotas.apply(delta)
    broker.connection_limits.rates.apply(delta)


def _publish_replicas(broker: PublishingBroker, delta: Delta, image: Image) -> None:
    if broker.hosted_replicas is not None:
        broker.hosted_replicas.apply(delta)


def _publish_coordinators(broker: PublishingBroker, delta: Delta, image: Image) -> None:
    if broker.hosted_coordinators is not None:
        broker.hosted_coordinators.apply(delta)


def _publish_lifecycle(broker: PublishingBroker, delta: Delta, image: Image) -> None:
    broker.lifecycle.published()
