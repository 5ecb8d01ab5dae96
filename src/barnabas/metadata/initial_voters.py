"""Parses the initial voters of a dynamic quorum (KIP-853) from the command line."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.base.ids import Uuid

MAX_PORT = 65535
MAX_NODE_ID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class InitialVoter:
    """A controller: its node id, its address, and the id of the directory with its metadata log."""

    node_id: int
    host: str
    port: int
    directory_id: Uuid


def parse_voters(text: str) -> tuple[InitialVoter, ...]:
    """Parse `ID@HOST:PORT:DIRECTORY-ID,…`, sorted by id; raises ValueError with Apache Kafka's message."""
    voters: dict[int, InitialVoter] = {}
    for part in text.strip().split(","):
        if part:
            voter = parse_voter(part)
            if voter.node_id in voters:
                raise ValueError(f"Node id {voter.node_id} was specified more than once.")
            voters[voter.node_id] = voter
    if not voters:
        raise ValueError("No voters given.")
    return tuple(voters[node_id] for node_id in sorted(voters))


def parse_voter(text: str) -> InitialVoter:
    """Parse one `ID@HOST:PORT:DIRECTORY-ID`; an IPv6 host is in brackets."""
    id_text, at, remainder = text.strip().partition("@")
    if not at:
        raise ValueError("No @ found in dynamic voter string.")
    if not id_text:
        raise ValueError("Invalid @ at beginning of dynamic voter string.")
    node_id = _number(id_text, MAX_NODE_ID, "Failed to parse node id in dynamic voter string.")
    if node_id < 0:
        raise ValueError(f"Invalid negative node id {node_id} in dynamic voter string.")
    if not remainder:
        raise ValueError("No hostname found after node id.")
    host, remainder = _split_host(remainder)
    port_text, colon, directory = remainder.partition(":")
    if not colon:
        raise ValueError("No colon following port could be found.")
    port = _number(port_text, MAX_NODE_ID, "Failed to parse port in dynamic voter string.")
    if not 0 <= port <= MAX_PORT:
        raise ValueError(f"Invalid port {port} in dynamic voter string.")
    try:
        return InitialVoter(node_id, host, port, Uuid.parse(directory))
    except ValueError as error:
        raise ValueError("Failed to parse directory ID in dynamic voter string.") from error


def _split_host(text: str) -> tuple[str, str]:
    """Returns the host and the text after the colon that follows it."""
    if text.startswith("["):
        host, bracket, remainder = text[1:].partition("]")
        if not bracket:
            raise ValueError("Hostname began with left bracket, but no right bracket was found.")
        if not remainder.startswith(":"):
            raise ValueError("Port section must start with a colon.")
        return host, remainder[1:]
    host, colon, remainder = text.partition(":")
    if not colon:
        raise ValueError("No colon following hostname could be found.")
    return host, remainder


def _number(text: str, largest: int, message: str) -> int:
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()) or int(text) > largest:
        raise ValueError(message)
    return int(text)
