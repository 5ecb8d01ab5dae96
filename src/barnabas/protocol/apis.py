"""The APIs of the protocol by key: versions, header versions, listeners, and message classes.

Contains lookups.  Message classes must not be imported at module level: the module of an API is imported when
its class is first needed, so that a tool that uses three APIs loads only those.
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
    message_class: type[Message] = getattr(module, name + suffix)
    return message_class


@dataclass(frozen=True, slots=True)
class Api:
    """One API.  `stable` is the highest version announced by default; below the lowest if none is stable."""

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
        """Header version 0, without a client id, is used by ControlledShutdown version 0 only."""
        if self.key == CONTROLLED_SHUTDOWN_KEY and version == 0:
            return 0
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """ApiVersions always has response header version 0: the client does not know the server yet
        (KIP-511)."""
        return 1 if self.is_flexible(version) and self.key != API_VERSIONS_KEY else 0

    def announced(self, *, unstable: bool = False) -> Versions:
        """The version range that ApiVersions announces.

        Produce is announced from 0 although versions below 3 are rejected: some librdkafka releases would
        otherwise assume that the broker does not support compression (KAFKA-18659).
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
    """A row of the table; the defaults are the common case."""
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
    known = apis().get(key)
    if known is None:
        raise ProtocolError(f"there is no API with key {key}", code=ErrorCode.UNSUPPORTED_VERSION)
    return known


def api_named(name: str) -> Api:
    """Looks up an API by Apache Kafka's name: `Produce`, `ApiVersions`."""
    for known in apis().values():
        if known.name == name:
            return known
    raise ProtocolError(f"there is no API named {name}", code=ErrorCode.UNSUPPORTED_VERSION)
