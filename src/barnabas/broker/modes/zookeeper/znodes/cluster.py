"""The znodes of the cluster as a whole: `/controller`, its epoch, `/cluster/id`, `/feature`, producer ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.broker.modes.zookeeper.znodes.json_data import MalformedZnodeError, decode, encode

CONTROLLER_VERSION = 2
FEATURE_VERSION = 2
PRODUCER_IDS_VERSION = 1
# Before the first controller; the znode holds it until the first election.
INITIAL_CONTROLLER_EPOCH = 0
# `status` of /feature.
FEATURES_DISABLED, FEATURES_ENABLED = 0, 1


class ControllerRegistration(NamedTuple):
    """`/controller`.  The epoch is that of a KRaft controller during a migration, else -1."""

    broker_id: int
    timestamp_ms: int = -1
    kraft_controller_epoch: int = -1

    def encode(self) -> bytes:
        return encode(
            {
                "version": CONTROLLER_VERSION,
                "brokerid": self.broker_id,
                "timestamp": str(self.timestamp_ms),
                "kraftControllerEpoch": self.kraft_controller_epoch,
            }
        )


def decode_controller(path: str, data: bytes | None) -> ControllerRegistration:
    found = decode(path, data)
    return ControllerRegistration(
        found.integer("brokerid"), found.integer("timestamp", -1), found.integer("kraftControllerEpoch", -1)
    )


def encode_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def decode_controller_epoch(path: str, data: bytes | None) -> int:
    text = b"" if data is None else data
    if not text.isdigit() or len(text) > 10:
        raise MalformedZnodeError(path, f"{text[:40]!r} is no epoch")
    return int(text)


def encode_cluster_id(cluster_id: str) -> bytes:
    return encode({"version": "1", "id": cluster_id})


def decode_cluster_id(path: str, data: bytes | None) -> str:
    return decode(path, data).text("id")


@dataclass(frozen=True, slots=True)
class Features:
    """`/feature`: finalized levels (KIP-584)."""

    levels: Mapping[str, int] = field(default_factory=dict)
    status: int = FEATURES_ENABLED

    def encode(self) -> bytes:
        return encode({"features": dict(self.levels), "version": FEATURE_VERSION, "status": self.status})


def decode_features(path: str, data: bytes | None) -> Features:
    """Version 1 had a lowest and a highest level of each feature, of which the highest counts."""
    found = decode(path, data)
    version = found.integer("version")
    features = found.nested("features")
    levels = {}
    for name in features.names():
        levels[name] = (
            features.nested(name).integer("max_version_level") if version == 1 else features.integer(name)
        )
    return Features(levels, found.integer("status", FEATURES_ENABLED))


class ProducerIdBlock(NamedTuple):
    """`/latest_producer_id_block`: the broker that got the last block, and its ids, both ends included."""

    broker_id: int
    first: int
    last: int

    def encode(self) -> bytes:
        return encode(
            {
                "version": PRODUCER_IDS_VERSION,
                "broker": self.broker_id,
                "block_start": str(self.first),
                "block_end": str(self.last),
            }
        )


def decode_producer_ids(path: str, data: bytes | None) -> ProducerIdBlock:
    found = decode(path, data)
    return ProducerIdBlock(found.integer("broker"), found.integer("block_start"), found.integer("block_end"))
