"""The servers that a client begins with, and when it begins with them anew.

What lives here: `bootstrap.servers`, `client.dns.lookup` and `metadata.recovery.*`.  What may not: the
brokers that metadata tells of (cluster).
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
    """The bootstrap servers as nodes, with what the options say about them."""

    def __init__(self, settings: Settings, servers: Sequence[str], resolver: Resolver) -> None:
        self._given = bootstrap_nodes(servers)
        self._resolver = resolver
        self._is_canonical = settings["client.dns.lookup"] == CANONICAL
        # Whether a client that knows brokers may go back to these servers (KIP-899).
        self.is_for_recovery: bool = settings["metadata.recovery.strategy"].lower() == REBOOTSTRAP
        self.trigger_s: float = settings["metadata.recovery.rebootstrap.trigger.ms"] / 1000
        self._nodes: list[Node] | None = None if self._is_canonical else self._given

    async def nodes(self) -> list[Node]:
        """The servers; with `resolve_canonical_bootstrap_servers_only` a name that stands for several
        addresses becomes a server for each, under its canonical name (KIP-235)."""
        if self._nodes is None:
            self._nodes = await self._canonical()
        return self._nodes

    def forget(self) -> None:
        """The names may stand for other addresses now."""
        if self._is_canonical:
            self._nodes = None

    def begins_anew_at(self, began_at: float) -> float | None:
        """When attempts for metadata that began then have lasted too long (KIP-1102); None for never."""
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
