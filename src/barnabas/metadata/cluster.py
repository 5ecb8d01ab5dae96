"""Broker and controller registrations.

Heartbeats and leases are soft state and belong in the controller.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from immutables import Map

from barnabas.base.ids import Uuid
from barnabas.protocol.records.metadata import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a listener."""

    name: str
    host: str
    port: int
    security_protocol: int


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker's registration.  The epoch is the offset of its registration record."""

    id: int
    epoch: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Map[str, tuple[int, int]]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[Uuid, ...]
    is_migrating_zk_broker: bool = False

    @classmethod
    def of_record(cls, record: RegisterBrokerRecord) -> Broker:
        return cls(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            directories=tuple(record.log_dirs),
            is_migrating_zk_broker=record.is_migrating_zk_broker,
        )

    def changed_by(self, record: BrokerRegistrationChangeRecord) -> Broker:
        """`fenced`: 1 fences, -1 unfences, 0 leaves it unchanged.  A controlled shutdown is never undone."""
        return replace(
            self,
            fenced=self.fenced if record.fenced == 0 else record.fenced > 0,
            in_controlled_shutdown=self.in_controlled_shutdown or record.in_controlled_shutdown > 0,
            directories=tuple(record.log_dirs) or self.directories,
        )

    def with_fenced(self, fenced: bool) -> Broker:
        return replace(self, fenced=fenced)

    def to_record(self) -> RegisterBrokerRecord:
        return RegisterBrokerRecord(
            broker_id=self.id,
            is_migrating_zk_broker=self.is_migrating_zk_broker,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            end_points=[
                RegisterBrokerRecord.BrokerEndpoint(
                    name=endpoint.name,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=endpoint.security_protocol,
                )
                for endpoint in self.endpoints
            ],
            features=[
                RegisterBrokerRecord.BrokerFeature(
                    name=name, min_supported_version=lowest, max_supported_version=highest
                )
                for name, (lowest, highest) in sorted(self.features.items())
            ],
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            log_dirs=list(self.directories),
        )

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener), None)


@dataclass(frozen=True, slots=True)
class Controller:
    """One controller's registration (KIP-919)."""

    id: int
    incarnation_id: Uuid
    zk_migration_ready: bool
    endpoints: tuple[Endpoint, ...]
    features: Map[str, tuple[int, int]]

    @classmethod
    def of_record(cls, record: RegisterControllerRecord) -> Controller:
        return cls(
            id=record.controller_id,
            incarnation_id=record.incarnation_id,
            zk_migration_ready=record.zk_migration_ready,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
        )

    def to_record(self) -> RegisterControllerRecord:
        return RegisterControllerRecord(
            controller_id=self.id,
            incarnation_id=self.incarnation_id,
            zk_migration_ready=self.zk_migration_ready,
            end_points=[
                RegisterControllerRecord.ControllerEndpoint(
                    name=endpoint.name,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=endpoint.security_protocol,
                )
                for endpoint in self.endpoints
            ],
            features=[
                RegisterControllerRecord.ControllerFeature(
                    name=name, min_supported_version=lowest, max_supported_version=highest
                )
                for name, (lowest, highest) in sorted(self.features.items())
            ],
        )


def _endpoints(
    endpoints: Iterable[RegisterBrokerRecord.BrokerEndpoint | RegisterControllerRecord.ControllerEndpoint],
) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(endpoint.name, endpoint.host, endpoint.port, endpoint.security_protocol)
        for endpoint in endpoints
    )


def _features(
    features: Iterable[RegisterBrokerRecord.BrokerFeature | RegisterControllerRecord.ControllerFeature],
) -> Map[str, tuple[int, int]]:
    return Map(
        {feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in features}
    )
