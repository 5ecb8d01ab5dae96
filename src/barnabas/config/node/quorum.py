"""The addresses of the KRaft quorum: static voters (`id@host:port`) and bootstrap servers (`host:port`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.config.errors import ConfigError

VOTERS = "controller.quorum.voters"
BOOTSTRAP_SERVERS = "controller.quorum.bootstrap.servers"

_HOST_AND_PORT = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)]?:([0-9]+)")
_VOTER_ID = re.compile(r"[+-]?[0-9]{1,10}")
_VOTER_FORM = "Each entry should be in the form `{id}@{host}:{port}`."
_SERVER_FORM = 'Each entry should be in the form "{host}:{port}"'
LAST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a node."""

    host: str
    port: int


def parse_voters(entries: Sequence[str]) -> dict[int, Address]:
    """The voters of a static quorum by id; the later of two entries with the same id wins."""
    voters: dict[int, Address] = {}
    for entry in entries:
        # Java's split drops empty trailing parts, so one trailing @ goes unnoticed there and here.
        parts = entry.rstrip("@").split("@")
        if len(parts) != 2:
            raise ConfigError(f"Invalid configuration value for {VOTERS}. {_VOTER_FORM}")
        if _VOTER_ID.fullmatch(parts[0]) is None:
            raise ConfigError(f"Failed to parse voter ID as an integer from {parts[0]}")
        voters[int(parts[0])] = _address(parts[1], f"entry {entry}", VOTERS, _VOTER_FORM)
    return voters


def parse_bootstrap_servers(entries: Sequence[str]) -> tuple[Address, ...]:
    """The bootstrap addresses of a dynamic quorum (KIP-853)."""
    return tuple(_address(entry, entry, BOOTSTRAP_SERVERS, _SERVER_FORM) for entry in entries)


def _address(text: str, entry: str, option: str, form: str) -> Address:
    match = _HOST_AND_PORT.fullmatch(text)
    if match is None:
        raise ConfigError(f"Failed to parse host name from {entry} for the configuration {option}. {form}")
    port = match[2].lstrip("0") or "0"
    if len(port) > len(str(LAST_PORT)) or int(port) > LAST_PORT:
        raise ConfigError(
            f"Failed to parse host port from {entry} for the configuration {option}. {form}",
            allowed=f"a port from 0 to {LAST_PORT}",
        )
    return Address(match[1], int(port))
