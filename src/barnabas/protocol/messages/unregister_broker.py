"""UnregisterBroker (api key 64).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int16, int32, string


class UnregisterBrokerRequest(Message, key=64, versions=(0, 0), flexible=0):
    """Unregisters a broker."""

    broker_id: int32


class UnregisterBrokerResponse(Message, key=64, versions=(0, 0), flexible=0):
    """Whether it was unregistered."""

    throttle_time_ms: int32
    error_code: int16
    error_message: string | None
