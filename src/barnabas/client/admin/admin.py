"""The admin client."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.client.admin.cluster_calls import ClusterCalls
from barnabas.client.admin.configs import ConfigCalls
from barnabas.client.admin.groups.group_offsets import GroupOffsetCalls
from barnabas.client.admin.groups.groups import GroupCalls
from barnabas.client.admin.log_dirs import LogDirCalls
from barnabas.client.admin.reassignments import ReassignmentCalls
from barnabas.client.admin.records import RecordCalls
from barnabas.client.admin.security.acls import AclCalls
from barnabas.client.admin.security.quotas import QuotaCalls
from barnabas.client.admin.security.scram import ScramCalls
from barnabas.client.admin.security.tokens import TokenCalls
from barnabas.client.admin.topics import TopicCalls
from barnabas.client.admin.transactions import TransactionCalls
from barnabas.client.cluster import Cluster
from barnabas.client.errors.base import check
from barnabas.client.options import admin_options
from barnabas.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

if TYPE_CHECKING:
    from barnabas.client.types.options import AdminOptions


class Admin(
    TopicCalls,
    ConfigCalls,
    RecordCalls,
    LogDirCalls,
    ReassignmentCalls,
    GroupCalls,
    GroupOffsetCalls,
    TransactionCalls,
    AclCalls,
    QuotaCalls,
    ScramCalls,
    TokenCalls,
    ClusterCalls,
):
    """The administrative requests of a cluster.

        async with Admin(bootstrap_servers="localhost:9092") as admin:
            await admin.create_topics([NewTopic("orders", num_partitions=3)])

    A call about several things returns `Outcomes`: a value or an error for each.  Every call takes
    `timeout_ms` (default: `default.api.timeout.ms`) and retries retriable errors until then.
    """

    def __init__(
        self, config: Mapping[str, object] | None = None, /, **options: Unpack[AdminOptions]
    ) -> None:
        settings = admin_options(config, options)
        super().__init__(settings, Cluster(settings))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self.cluster.close()

    async def client_instance_id(self, *, timeout_ms: int | None = None) -> Uuid:
        """Return the id that the cluster assigned to this client for telemetry (KIP-714)."""
        request = GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID)
        response = await self._send_to_any(request, GetTelemetrySubscriptionsResponse, timeout_ms)
        check(response.error_code)
        return response.client_instance_id
