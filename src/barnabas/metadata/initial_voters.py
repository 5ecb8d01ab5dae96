"""The voters that a dynamic quorum starts with (KIP-853), as the command line gives them."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.base.ids import Uuid

MAX_PORT = 65535
MAX_NODE_ID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class InitialVoter:
    """A controller: its node, where it listens, and the id of the folder that holds its metadata log."""

    node_id: int
    host: str
    port: int
    directory_id: Uuid


def parse_voters(text: str) -> tuple[InitialVoter, ...]:
    """Read `ID@HOST:PORT:DIRECTORY-ID,…`, sorted by id; ValueError in Apache Kafka's words."""
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
    """Read one `ID@HOST:PORT:DIRECTORY-ID`; a host of IPv6 stands in brackets."""
    id_text, at, rest = text.strip().partition("@")
    if not at:
        raise ValueError("No @ found in dynamic voter string.")
    if not id_text:
        raise ValueError("Invalid @ at beginning of dynamic voter string.")
    node_id = _number(id_text, MAX_NODE_ID, "Failed to parse node id in dynamic voter string.")
    if node_id < 0:
        raise ValueError(f"Invalid negative node id {node_id} in dynamic voter string.")
    if not rest:
        raise ValueError("No hostname found after node id.")
    host, rest = _split_host(rest)
    port_text, colon, directory = rest.partition(":")
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
    """The host, and what follows the colon behind it."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket:
            raise ValueError("Hostname began with left bracket, but no right bracket was found.")
        if not rest.startswith(":"):
            raise ValueError("Port section must start with a colon.")
        return host, rest[1:]
    host, colon, rest = text.partition(":")
    if not colon:
        raise ValueError("No colon following hostname could be found.")
    return host, rest


def _number(text: str, largest: int, refusal: str) -> int:
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()) or int(text) > largest:
        raise ValueError(refusal)
    return int(text)
