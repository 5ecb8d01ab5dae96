"""Quotas of a broker that has none."""

from __future__ import annotations

from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.quotas.client_quotas import Limits
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image


class Unlimited:
    """No quotas: no request is throttled."""

    is_set = False

    def limits_of(self, context: RequestContext) -> Limits | None:
        return None

    def load(self, image: Image) -> None:
        """There are none to take."""

    def apply(self, delta: Delta) -> None:
        """As above."""
