"""ControllerRegistration (api key 70).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, int16, int32, string, uint16, uuid


class ControllerRegistrationRequest(Message, key=70, versions=(0, 0), flexible=0):
    """A controller registers with its endpoints and features."""

    class Listener(Message):
        name: string
        host: string
        port: uint16
        security_protocol: int16

    class Feature(Message):
        name: string
        min_supported_version: int16
        max_supported_version: int16

    controller_id: int32
    incarnation_id: uuid
    zk_migration_ready: bool
    listeners: list[Listener]
    features: list[Feature]


class ControllerRegistrationResponse(Message, key=70, versions=(0, 0), flexible=0):
    """Whether the controller is registered."""

    throttle_time_ms: int32
    error_code: int16
    error_message: string | None
