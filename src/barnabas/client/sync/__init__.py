"""Blocking Producer, Consumer and Admin: the asyncio clients on a loop in a thread, not a second client."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.client.sync.admin import Admin
    from barnabas.client.sync.consumer import Consumer
    from barnabas.client.sync.producer import Delivery, Producer

__all__ = ["Admin", "Consumer", "Delivery", "Producer"]

_MODULES = {"Admin": "admin", "Consumer": "consumer", "Delivery": "producer", "Producer": "producer"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"barnabas.client.sync has no {name}")
    return getattr(import_module(f"barnabas.client.sync.{_MODULES[name]}"), name)
