"""Producer, Consumer and Admin for programs without asyncio: one loop in a thread, not a second client."""

from __future__ import annotations

from barnabas.client.sync.admin import Admin

__all__ = ["Admin"]
