"""The client that sent a request."""

from __future__ import annotations

from typing import NamedTuple


class Caller(NamedTuple):
    """`client_host` has Apache Kafka's format: a slash and the address."""

    client_id: str
    client_host: str
    api_version: int
