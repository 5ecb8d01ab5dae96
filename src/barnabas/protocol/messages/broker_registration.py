"""BrokerRegistration (api key 62).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int16, int32, int64, string, uint16, uuid


class BrokerRegistrationRequest(Message, key=62, versions=(0, 4), flexible=0):
    """A broker registers with its endpoints, features and directories."""

    class Listener(Message):
        name: string
        host: string
        port: uint16
        security_protocol: int16

    class Feature(Message):
        name: string
        min_supported_version: int16
        max_supported_version: int16

    broker_id: int32
    cluster_id: string
    incarnation_id: uuid
    listeners: list[Listener]
    features: list[Feature]
    rack: string | None
    is_migrating_zk_broker: bool = field("1+", default=False)
    log_dirs: list[uuid] = field("2+", default=[], ignorable=True)
    previous_broker_epoch: int64 = field("3+", default=-1, ignorable=True)


class BrokerRegistrationResponse(Message, key=62, versions=(0, 4), flexible=0):
    """The epoch of the registration."""

    throttle_time_ms: int32
    error_code: int16
    broker_epoch: int64 = field(default=-1)
