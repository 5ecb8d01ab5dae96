"""Configs of consumer groups: the broker's, and those set for a group."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache

from barnabas.config.settings import Settings
from barnabas.coordinator.decision import Context
from barnabas.coordinator.group.assignors import range as range_assignor
from barnabas.coordinator.group.assignors import uniform
from barnabas.coordinator.group.assignors.spec import Assignor
from barnabas.coordinator.group.subscription.target import ASSIGNORS
from barnabas.metadata.image import ConfigResource

# Apache Kafka's class names are aliases of the same assignors.
_CLASSES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": uniform.NAME,
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": range_assignor.NAME,
}


def assignors_of(settings: Settings) -> Mapping[str, Assignor]:
    """The configured assignors; the first is the default."""
    return _assignors(tuple(settings["group.consumer.assignors"]))


@lru_cache(maxsize=16)
def _assignors(names: tuple[str, ...]) -> Mapping[str, Assignor]:
    known = [_CLASSES.get(name, name) for name in names]
    unknown = [name for name in known if name not in ASSIGNORS]
    if unknown or not known:
        raise ValueError(
            f"group.consumer.assignors is {','.join(names)}: only {', '.join(ASSIGNORS)} are allowed"
        )
    return {name: ASSIGNORS[name] for name in known}


class MigrationPolicy(Enum):
    """The allowed online migrations between the protocols."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


def migration_policy(settings: Settings) -> MigrationPolicy:
    return MigrationPolicy(settings["group.consumer.migration.policy"].lower())


def session_timeout_ms(group_id: str, context: Context) -> int:
    return _group_config(group_id, "consumer.session.timeout.ms", context)


def heartbeat_interval_ms(group_id: str, context: Context) -> int:
    return _group_config(group_id, "consumer.heartbeat.interval.ms", context)


def _group_config(group_id: str, name: str, context: Context) -> int:
    """The config of the group, or else the broker config of the same name with the prefix `group.`."""
    configured = context.image.configs_of(ConfigResource.GROUP, group_id).get(name)
    value: int = context.settings[f"group.{name}"]
    return value if configured is None else int(configured)
