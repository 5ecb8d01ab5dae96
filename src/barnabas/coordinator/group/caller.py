"""Who asks: what a member's connection says of it."""

from __future__ import annotations

from typing import NamedTuple


class Caller(NamedTuple):
    """`client_host` is as Apache Kafka writes it: a slash and the address."""

    client_id: str
    client_host: str
    api_version: int
