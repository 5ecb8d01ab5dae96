"""Bootstrap servers: `host:port`, IPv6 in brackets."""

from __future__ import annotations

import re
from collections.abc import Iterable

from barnabas.client.model import Node
from barnabas.config.errors import ConfigError

_ADDRESS = re.compile(r"(?:[A-Za-z0-9_]+://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")
MAX_PORT = 65535


def bootstrap_nodes(servers: Iterable[str]) -> list[Node]:
    """Return the servers as nodes with ids -1, -2, ...; raises ConfigError with Apache Kafka's message.

    A server that is not `host:port` is malformed.
    """
    nodes: list[Node] = []
    for server in servers:
        text = server.strip()
        if not text:
            continue
        match = _ADDRESS.fullmatch(text)
        if match is None or not match[1] or int(match[2]) > MAX_PORT:
            raise ConfigError(f"Invalid url in bootstrap.servers: {text}", allowed="host:port,host:port,...")
        nodes.append(Node(-1 - len(nodes), match[1], int(match[2])))
    if not nodes:
        raise ConfigError("No resolvable bootstrap urls given in bootstrap.servers")
    return nodes
