"""`/brokers/ids/N`: the registration of a broker, whose czxid is the broker's epoch (KIP-380)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.broker.modes.zookeeper.znodes.json_data import JsonObject, decode, encode, scala_order
from barnabas.metadata.cluster import Endpoint

VERSION = 5
PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
_PROTOCOL_NAMES = {number: name for name, number in PROTOCOLS.items()}
_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """What a broker says of itself."""

    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    jmx_port: int = -1
    timestamp_ms: int = -1
    # Supported features: the lowest and the highest version of each.
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def encode(self) -> bytes:
        # For clients from before listeners: null and -1 without a plaintext listener.
        plaintext = next((end for end in self.endpoints if end.security_protocol == 0), None)
        values: dict[str, object] = {
            "version": VERSION,
            "host": plaintext.host if plaintext else None,
            "port": plaintext.port if plaintext else -1,
            "endpoints": [_connection_string(end) for end in self.endpoints],
            "jmx_port": self.jmx_port,
            "timestamp": str(self.timestamp_ms),
        }
        if self.rack is not None:
            values["rack"] = self.rack
        values["listener_security_protocol_map"] = {
            end.name: _PROTOCOL_NAMES[end.security_protocol] for end in self.endpoints
        }
        values["features"] = {
            name: {"min_version": lowest, "max_version": highest}
            for name, (lowest, highest) in self.features.items()
        }
        return encode({name: values[name] for name in scala_order(values)})


def decode_broker(path: str, data: bytes | None) -> BrokerRegistration:
    """Reads all versions, from 1 on, which had one plaintext listener."""
    found = decode(path, data)
    version = found.integer("version")
    if version < 1:
        raise found.fail(f"its version {version} is not known")
    if version == 1:
        endpoints = [Endpoint("PLAINTEXT", found.text("host"), _port(found, found.integer("port")), 0)]
    else:
        protocols = found.text_map("listener_security_protocol_map")
        endpoints = [_endpoint(found, text, protocols) for text in found.texts("endpoints")]
    features = found.nested("features")
    return BrokerRegistration(
        endpoints=tuple(endpoints),
        rack=found.optional_text("rack"),
        jmx_port=found.integer("jmx_port", -1),
        timestamp_ms=found.integer("timestamp", -1),
        features={name: _feature(features.nested(name)) for name in features.names()},
    )


def _connection_string(end: Endpoint) -> str:
    return f"{end.name}://{f'[{end.host}]' if ':' in end.host else end.host}:{end.port}"


def _endpoint(found: JsonObject, text: str, protocols: Mapping[str, str]) -> Endpoint:
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        raise found.fail(f"its endpoint {text[:200]!r} has not the form NAME://host:port")
    name, host, port = match.groups()
    protocol = PROTOCOLS.get(protocols.get(name, name).upper())
    if protocol is None:
        raise found.fail(f"the security protocol of its listener {name[:100]!r} is not known")
    return Endpoint(name, host, _port(found, int(port)), protocol)


def _port(found: JsonObject, port: int) -> int:
    if not -1 <= port <= 65535:
        raise found.fail(f"its port {port} does not exist")
    return port


def _feature(found: JsonObject) -> tuple[int, int]:
    return found.integer("min_version"), found.integer("max_version")
