"""DescribeCluster (api key 60).

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message, field, int8, int16, int32, string


class DescribeClusterRequest(Message, key=60, versions=(0, 2), flexible=0):
    """Requests the nodes of the cluster."""

    include_cluster_authorized_operations: bool
    endpoint_type: int8 = field("1+", default=1)
    include_fenced_brokers: bool = field("2+", default=False)


class DescribeClusterResponse(Message, key=60, versions=(0, 2), flexible=0):
    """The brokers or controllers, the cluster's id and its controller."""

    class Broker(Message):
        broker_id: int32
        host: string
        port: int32
        rack: string | None = field(default=None)
        is_fenced: bool = field("2+", default=False)

    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = field(default=None)
    endpoint_type: int8 = field("1+", default=1)
    cluster_id: string
    controller_id: int32 = field(default=-1)
    brokers: list[Broker]
    cluster_authorized_operations: int32 = field(default=-2147483648)
