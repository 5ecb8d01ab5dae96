"""PushTelemetry (api key 72).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int8, int16, int32, uuid


class PushTelemetryRequest(Message, key=72, versions=(0, 0), flexible=0):
    """Metrics of a client (KIP-714)."""

    client_instance_id: uuid
    subscription_id: int32
    terminating: bool
    compression_type: int8
    metrics: bytes


class PushTelemetryResponse(Message, key=72, versions=(0, 0), flexible=0):
    """Whether the metrics were accepted."""

    throttle_time_ms: int32
    error_code: int16
