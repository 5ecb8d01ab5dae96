"""Which APIs a listener serves, and what ApiVersions tells of them, as a function of mode, role and options.

What lives here: the table of what works, and the lazy way from an API to its handler file.  What may not:
reading requests (dispatch) and what an API does (handlers).

Only what works is in the table, so only what works is announced.  A handler file is imported by the first
request for it: a broker that starts pays for none.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.broker.metrics.registry import Metrics, RequestMetrics
from barnabas.broker.network.request_context import Deferred, Pieces
from barnabas.config.option import Mode
from barnabas.config.settings import Settings
from barnabas.protocol.apis import Api, api_named
from barnabas.protocol.schema import Message, Versions

NEVER_FLEXIBLE = 2**15
_HANDLERS = "barnabas.broker.handlers"
# Requests that only nodes send to the controller; one handler file passes them all on.
_PASSED_ON = "controller_channel"


class Role(StrEnum):
    """Whom a listener is for.  Clients and brokers are served alike; their principals set them apart."""

    CLIENT = "client"
    INTER_BROKER = "inter-broker"
    CONTROLLER = "controller"


_BOTH = (
    "AlterClientQuotas",
    "AlterConfigs",
    "AlterPartitionReassignments",
    "AlterUserScramCredentials",
    "ApiVersions",
    "CreateAcls",
    "CreateDelegationToken",
    "CreatePartitions",
    "CreateTopics",
    "DeleteAcls",
    "DeleteTopics",
    "DescribeAcls",
    "DescribeCluster",
    "DescribeConfigs",
    "DescribeDelegationToken",
    "DescribeQuorum",
    "DescribeUserScramCredentials",
    "ElectLeaders",
    "ExpireDelegationToken",
    "IncrementalAlterConfigs",
    "ListPartitionReassignments",
    "RenewDelegationToken",
    "SaslAuthenticate",
    "SaslHandshake",
    "UnregisterBroker",
    "UpdateFeatures",
)
_BROKER = (
    *_BOTH,
    "AddOffsetsToTxn",
    "AddPartitionsToTxn",
    "AlterReplicaLogDirs",
    "ConsumerGroupDescribe",
    "ConsumerGroupHeartbeat",
    "DeleteGroups",
    "DeleteRecords",
    "DescribeClientQuotas",
    "DescribeGroups",
    "DescribeLogDirs",
    "DescribeProducers",
    "DescribeTopicPartitions",
    "DescribeTransactions",
    "EndTxn",
    "Fetch",
    "FindCoordinator",
    "Heartbeat",
    "InitProducerId",
    "JoinGroup",
    "LeaveGroup",
    "ListConfigResources",
    "ListGroups",
    "ListOffsets",
    "ListTransactions",
    "Metadata",
    "OffsetCommit",
    "OffsetDelete",
    "OffsetFetch",
    "OffsetForLeaderEpoch",
    "Produce",
    "SyncGroup",
    "TxnOffsetCommit",
    "WriteTxnMarkers",
)
_CONTROLLER_ONLY = (
    "AllocateProducerIds",
    "AlterPartition",
    "AssignReplicasToDirs",
    "BrokerHeartbeat",
    "BrokerRegistration",
    "ControllerRegistration",
)

Handle = Callable[[Any, Any, Any], Any]
Quick = Callable[[Any, memoryview, int, Any], Pieces | Deferred | None]
Refuse = Callable[[Any, ErrorCode, str], Message]


class Route:
    """The way of one API's requests on one listener."""

    __slots__ = (
        "_handle",
        "_module",
        "announced",
        "api",
        "flexible_from",
        "highest",
        "lowest",
        "metrics",
        "quick",
        "refuse",
        "tagged_header_from",
    )

    def __init__(self, api: Api, module: str, metrics: RequestMetrics, *, unstable: bool) -> None:
        self.api = api
        self.announced: Versions = api.announced(unstable=unstable)
        self.lowest = api.versions.lowest
        self.highest = self.announced.highest
        self.flexible_from = NEVER_FLEXIBLE if api.flexible_from is None else api.flexible_from
        # From this version on the answer's header has tagged fields; ApiVersions' never does (KIP-511).
        self.tagged_header_from = next(
            (v for v in range(self.highest + 1) if api.response_header_version(v)), NEVER_FLEXIBLE
        )
        self.metrics = metrics
        self.quick: Quick | None = None
        self.refuse: Refuse | None = None
        self._module = module
        self._handle: Handle | None = None

    @property
    def handle(self) -> Handle:
        if self._handle is None:
            self.load()
            assert self._handle is not None
        return self._handle

    @property
    def is_loaded(self) -> bool:
        return self._handle is not None

    def load(self) -> None:
        """Import the handler file."""
        module = importlib.import_module(f"{_HANDLERS}.{self._module}")
        self.quick = getattr(module, "quick", None)
        self.refuse = getattr(module, "refuse", None)
        self._handle = module.handle


def routes_for(mode: Mode, role: Role, settings: Settings, metrics: Metrics) -> dict[int, Route]:
    """Every API that is served, by key in ascending order."""
    if mode is not Mode.KRAFT:
        raise NotImplementedError("ZooKeeper mode is not built yet")
    unstable: bool = settings["unstable.api.versions.enable"]
    if role is Role.CONTROLLER:
        rows = [*_rows(_BOTH), *((name, _PASSED_ON) for name in _CONTROLLER_ONLY)]
    else:
        rows = _rows(_BROKER)
    known = [(api_named(name), module) for name, module in rows]
    return {
        api.key: Route(api, module, metrics.requests(api), unstable=unstable)
        for api, module in sorted(known, key=lambda row: row[0].key)
    }


def _rows(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, _file_of(name)) for name in names]


def _file_of(name: str) -> str:
    """`DescribeLogDirs` is handled in describe_log_dirs.py."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
