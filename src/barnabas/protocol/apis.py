"""The APIs of the protocol, by key: versions, header versions, who listens, and the message classes.

What lives here: lookups.  What may not: message classes as imports; the module of an API is imported when its
class is first asked for, so that a tool that needs three APIs pays for three.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from functools import cache

from barnabas.base.errors import ErrorCode
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.schema import Message, Versions

API_VERSIONS_KEY = 18
CONTROLLED_SHUTDOWN_KEY = 7
PRODUCE_KEY = 0


@cache
def _message_class(name: str, suffix: str) -> type[Message]:
    file = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    module = importlib.import_module(f"barnabas.protocol.messages.{file}")
    found: type[Message] = getattr(module, name + suffix)
    return found


@dataclass(frozen=True, slots=True)
class Api:
    """One API.  `stable` is the highest version announced by default, below the lowest if there is none."""

    key: int
    name: str
    versions: Versions
    stable: int
    flexible_from: int | None
    listeners: tuple[str, ...]
    cluster_action: bool
    forwarded: bool

    @property
    def request(self) -> type[Message]:
        return _message_class(self.name, "Request")

    @property
    def response(self) -> type[Message]:
        return _message_class(self.name, "Response")

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from

    def request_header_version(self, version: int) -> int:
        """Version 0, without a client id, remains for the oldest ControlledShutdown alone."""
        if self.key == CONTROLLED_SHUTDOWN_KEY and version == 0:
            return 0
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """ApiVersions answers with header version 0 always: a client cannot know the server's (KIP-511)."""
        return 1 if self.is_flexible(version) and self.key != API_VERSIONS_KEY else 0

    def announced(self, *, unstable: bool = False) -> Versions:
        """What ApiVersions tells of it.

        Produce is announced from 0 though versions below 3 are refused: some librdkafka releases take a
        higher start for a broker without compression (KAFKA-18659).
        """
        lowest = 0 if self.key == PRODUCE_KEY else self.versions.lowest
        return Versions(lowest, self.versions.highest if unstable else self.stable)


def api_row(
    key: int,
    name: str,
    versions: str,
    listeners: str,
    *,
    flexible: int | None = None,
    stable: int | None = None,
    cluster_action: bool = False,
    forwarded: bool = False,
) -> Api:
    """A row of the table: what is not said is the common case."""
    known = Versions.parse(versions)
    return Api(
        key=key,
        name=name,
        versions=known,
        stable=known.highest if stable is None else stable,
        flexible_from=flexible,
        listeners=tuple(listeners.split()),
        cluster_action=cluster_action,
        forwarded=forwarded,
    )


@cache
def apis() -> dict[int, Api]:
    """Every API by its key."""
    from barnabas.protocol.api_table import API_ROWS

    return {api.key: api for api in API_ROWS}


def api(key: int) -> Api:
    found = apis().get(key)
    if found is None:
        raise ProtocolError(f"there is no API with key {key}", code=ErrorCode.UNSUPPORTED_VERSION)
    return found


def api_named(name: str) -> Api:
    """By Apache Kafka's name: `Produce`, `ApiVersions`."""
    for found in apis().values():
        if found.name == name:
            return found
    raise ProtocolError(f"there is no API named {name}", code=ErrorCode.UNSUPPORTED_VERSION)
