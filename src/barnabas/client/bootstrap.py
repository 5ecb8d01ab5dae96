"""The bootstrap servers, and when a client returns to them.

Contains `bootstrap.servers`, `client.dns.lookup` and `metadata.recovery.*`; brokers learned from metadata
belong in `cluster`.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.client.addresses import bootstrap_nodes
from barnabas.client.errors.local import NoBrokersError
from barnabas.client.model import Node
from barnabas.config.settings import Settings
from barnabas.runtime.network.resolver import Resolver

CANONICAL = "resolve_canonical_bootstrap_servers_only"
REBOOTSTRAP = "rebootstrap"


class Bootstrap:
    """The bootstrap servers as nodes, with the options that apply to them."""

    def __init__(self, settings: Settings, servers: Sequence[str], resolver: Resolver) -> None:
        self._given = bootstrap_nodes(servers)
        self._resolver = resolver
        self._is_canonical = settings["client.dns.lookup"] == CANONICAL
        # Whether a client that knows brokers may return to the bootstrap servers (KIP-899).
        self.is_for_recovery: bool = settings["metadata.recovery.strategy"].lower() == REBOOTSTRAP
        self.trigger_s: float = settings["metadata.recovery.rebootstrap.trigger.ms"] / 1000
        self._nodes: list[Node] | None = None if self._is_canonical else self._given

    async def nodes(self) -> list[Node]:
        """Return the servers; with `resolve_canonical_bootstrap_servers_only` a name with several addresses
        becomes one server per address, under its canonical name (KIP-235)."""
        if self._nodes is None:
            self._nodes = await self._canonical()
        return self._nodes

    def forget(self) -> None:
        """Drop resolved names, which may have other addresses now."""
        if self._is_canonical:
            self._nodes = None

    def rebootstrap_at(self, began_at: float) -> float | None:
        """Return when metadata attempts that began then trigger a rebootstrap (KIP-1102); None for never."""
        return began_at + self.trigger_s if self.is_for_recovery else None

    async def _canonical(self) -> list[Node]:
        places: dict[tuple[str, int], None] = {}
        reasons = []
        for server in self._given:
            try:
                names = await self._resolver.canonical_names(server.host)
            except OSError as error:
                reasons.append(f"{server.host}: {error}")
                continue
            places.update(dict.fromkeys((name, server.port) for name in names))
        if not places:
            raise NoBrokersError(f"no bootstrap server can be resolved: {'; '.join(reasons)}")
        return [Node(-1 - number, host, port) for number, (host, port) in enumerate(places)]
