"""The routes of a listener: which APIs and versions it serves, depending on mode, role and options.

The API table (`protocol.api_table`) has the listeners of each API.  An API is served if a handler module of
its name exists, or if it is a row of `FORWARDED`; so only supported APIs are announced.  A handler module is
imported by its first request, which keeps startup fast.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from enum import StrEnum
from functools import cache, partial
from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.broker import handlers
from barnabas.broker.metrics.registry import Metrics, RequestMetrics
from barnabas.broker.network.forwarding import FORWARDED, forward
from barnabas.broker.network.request_context import Deferred, Pieces
from barnabas.config.option import Mode
from barnabas.config.settings import Settings
from barnabas.protocol.apis import Api, apis
from barnabas.protocol.schema import Message, Versions

NEVER_FLEXIBLE = 2**15


class Role(StrEnum):
    """The role of a listener.  Clients and brokers are served alike and differ by their principals."""

    CLIENT = "client"
    INTER_BROKER = "inter-broker"
    CONTROLLER = "controller"

    @property
    def listener_type(self) -> str:
        """The name of the role in the API table, in KRaft mode."""
        return "controller" if self is Role.CONTROLLER else "broker"


# APIs with another handler on controller listeners: there, Fetch reads the metadata log.
_CONTROLLER_FILES = {"Fetch": "fetch_metadata_log"}
# Controllers of Apache Kafka 4.2 and later need a version that 4.1 does not have, to join the voters.
_CONTROLLER_VERSIONS = frozenset({"AddRaftVoter"})

# The highest versions of Apache Kafka 3.9, the last release with ZooKeeper mode, where 4.1 has higher ones.
ZOOKEEPER_HIGHEST = {
    "Produce": 11,
    "Fetch": 17,
    "ListOffsets": 9,
    "Metadata": 12,
    "DescribeGroups": 5,
    "InitProducerId": 5,
    "EndTxn": 4,
    "TxnOffsetCommit": 4,
    "AlterPartitionReassignments": 0,
    "UpdateFeatures": 1,
    "DescribeCluster": 1,
    "ListTransactions": 1,
    "ConsumerGroupHeartbeat": 0,
    "ConsumerGroupDescribe": 0,
}
# Controllers of KRaft mode move the leaderships of a broker by its heartbeats.
_ZOOKEEPER_ALONE = frozenset({"ControlledShutdown"})

Handle = Callable[[Any, Any, Any], Any]
Quick = Callable[[Any, memoryview, int, Any], Pieces | Deferred | None]
Refuse = Callable[[Any, ErrorCode, str], Message | None]


class Route:
    """An API on one listener."""

    __slots__ = (
        "_file",
        "_handle",
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

    def __init__(
        self,
        api: Api,
        metrics: RequestMetrics,
        *,
        unstable: bool,
        file: str | None = None,
        highest: int | None = None,
    ) -> None:
        self.api = api
        self._file = _file_of(api.name) if file is None else file
        announced = api.announced(unstable=unstable)
        if highest is not None:
            announced = Versions(announced.lowest, min(highest, announced.highest))
        self.announced: Versions = announced
        self.lowest = api.versions.lowest
        self.highest = self.announced.highest
        self.flexible_from = NEVER_FLEXIBLE if api.flexible_from is None else api.flexible_from
        # The first version whose response header has tagged fields; ApiVersions never has them (KIP-511).
        self.tagged_header_from = next(
            (v for v in range(self.highest + 1) if api.response_header_version(v)), NEVER_FLEXIBLE
        )
        self.metrics = metrics
        self.quick: Quick | None = None
        self.refuse: Refuse | None = None
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

    @property
    def place(self) -> str:
        """The path of its handler, or of the table of forwarded APIs."""
        return f"handlers/{self._file}.py" if self._file in _handler_files() else "network/forwarding.py"

    def load(self) -> None:
        """Imports the handler module; a forwarded API may have none."""
        operation = FORWARDED.get(self.api.name)
        if operation is not None:
            self._handle = partial(forward, operation)
        if self._file in _handler_files():
            module = importlib.import_module(f"{handlers.__name__}.{self._file}")
            self.quick = getattr(module, "quick", None)
            self.refuse = getattr(module, "refuse", None)
            self._handle = getattr(module, "handle", self._handle)


def routes_for(mode: Mode, role: Role, settings: Settings, metrics: Metrics) -> dict[int, Route]:
    """Returns the routes of all served APIs, sorted by key."""
    unstable: bool = settings["unstable.api.versions.enable"]
    return {
        api.key: Route(
            api,
            metrics.requests(api),
            unstable=unstable or (role is Role.CONTROLLER and api.name in _CONTROLLER_VERSIONS),
            file=_file_for(api, role),
            highest=ZOOKEEPER_HIGHEST.get(api.name) if mode is Mode.ZOOKEEPER else None,
        )
        for api in sorted(apis().values(), key=lambda api: api.key)
        if _is_served(api, mode, role)
    }


def _is_served(api: Api, mode: Mode, role: Role) -> bool:
    listener_type = "zkBroker" if mode is Mode.ZOOKEEPER else role.listener_type
    if listener_type not in api.listeners or (mode is Mode.KRAFT and api.name in _ZOOKEEPER_ALONE):
        return False
    return api.name in FORWARDED or _file_of(api.name) in _handler_files()


@cache
def _handler_files() -> frozenset[str]:
    return frozenset(module.name for module in pkgutil.iter_modules(handlers.__path__))


def _file_for(api: Api, role: Role) -> str:
    own = _file_of(api.name)
    return _CONTROLLER_FILES.get(api.name, own) if role is Role.CONTROLLER else own


def _file_of(name: str) -> str:
    """Returns the module name: describe_log_dirs for `DescribeLogDirs`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
