"""GetTelemetrySubscriptions (api key 71).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int8, int16, int32, string, uuid


class GetTelemetrySubscriptionsRequest(Message, key=71, versions=(0, 0), flexible=0):
    """Requests the metrics that the cluster subscribes to (KIP-714)."""

    client_instance_id: uuid


class GetTelemetrySubscriptionsResponse(Message, key=71, versions=(0, 0), flexible=0):
    """The metrics, the push interval, and the accepted compression types."""

    throttle_time_ms: int32
    error_code: int16
    client_instance_id: uuid
    subscription_id: int32
    accepted_compression_types: list[int8]
    push_interval_ms: int32
    telemetry_max_bytes: int32
    delta_temporality: bool
    requested_metrics: list[string]
