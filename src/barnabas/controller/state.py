"""The controller's state: the image, the soft state, and queries over both.

Decisions belong in the area modules.  Only `apply` changes the durable part, which is the image.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import LOST_DIR, MIGRATING_DIR, UNASSIGNED_DIR, Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.config import TOPIC, Settings
from barnabas.config.layers import Layers
from barnabas.controller.brokers.heartbeats import Heartbeats
from barnabas.controller.configs.policies import AlterConfigPolicy, CreateTopicPolicy
from barnabas.controller.quorum_view import FixedQuorum, QuorumView
from barnabas.controller.replication.partition_index import Entry, PartitionIndex
from barnabas.controller.security.existing_acls import ExistingAcls
from barnabas.controller.store import METADATA_LOG_POLICY, StorePolicy
from barnabas.controller.topics.colliding_names import CollidingNames
from barnabas.controller.topics.described_configs import DescribedConfigs
from barnabas.controller.topics.mutation_quotas import MutationQuotas
from barnabas.controller.topics.placement import UsableBroker
from barnabas.metadata.cluster import Broker
from barnabas.metadata.delta import Delta
from barnabas.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from barnabas.metadata.image import EMPTY_IMAGE, ConfigResource, Image
from barnabas.metadata.levels import DIRECTORIES_LEVEL
from barnabas.metadata.topics import Topic
from barnabas.protocol.schema import Message
from barnabas.runtime.random import Random
from barnabas.security.delegation_tokens import TokenIndex

MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"
# Directory ids below this represent states, not directories (KIP-858).
RESERVED_DIRECTORIES = frozenset(Uuid.from_words(0, number) for number in range(100))


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """The configuration of the controller's node."""

    node_id: int
    cluster_id: str
    static: Settings
    quorum: QuorumView = field(default_factory=FixedQuorum)
    # The voters of the configuration, of which each must register.
    controller_ids: frozenset[int] = frozenset()
    create_topic_policy: CreateTopicPolicy | None = None
    alter_config_policy: AlterConfigPolicy | None = None
    policy: StorePolicy = METADATA_LOG_POLICY

    @property
    def token_secret(self) -> bytes | None:
        """The key that signs delegation tokens; None if they are not enabled."""
        given = self.static["delegation.token.secret.key"]
        return None if given is None or not given.value else str(given.value).encode()

    @property
    def session_timeout_ns(self) -> int:
        return int(self.static["broker.session.timeout.ms"]) * NS_PER_MS


@dataclass(slots=True)
class ControllerState:
    """The complete state of the controller."""

    options: ControllerOptions
    random: Random
    image: Image = EMPTY_IMAGE
    heartbeats: Heartbeats = field(init=False)
    colliding: CollidingNames = field(init=False)
    existing_acls: ExistingAcls = field(init=False)
    mutation_quotas: MutationQuotas = field(init=False)
    described_configs: DescribedConfigs = field(init=False, default_factory=DescribedConfigs)
    # Offsets of the registration records; a broker has caught up once it has read its own.
    registered_at: dict[int, int] = field(init=False)
    # Topics whose deletion has begun, where that takes a while: nothing else is done to them.
    deleting: Collection[str] = ()
    # None if delegation tokens are not enabled.
    token_index: TokenIndex | None = field(init=False)
    # Built when it is first needed.
    _built_index: PartitionIndex | None = field(init=False, default=None)
    _layers: Layers | None = field(init=False, default=None)
    _settings: Settings = field(init=False)

    def __post_init__(self) -> None:
        self.heartbeats = Heartbeats(self.options.session_timeout_ns)
        self.colliding = CollidingNames()
        self.existing_acls = ExistingAcls()
        self.mutation_quotas = MutationQuotas(self.options.static)
        self.registered_at = {}
        secret = self.options.token_secret
        self.token_index = None if secret is None else TokenIndex(secret)
        self.load(self.image)

    def load(self, image: Image) -> None:
        """Start from this image with empty soft state."""
        self.image = image
        self._built_index = None
        self.heartbeats.deactivate()
        self.colliding.replace(sorted(image.topic_ids))
        self.existing_acls.replace(image.acls.values())
        self.registered_at = {broker.id: image.offset for broker in image.brokers.values()}
        self._load_configs()

    def prepare(self, records: Sequence[Message], last_offset: int, epoch: int, timestamp_ms: int) -> Delta:
        """Returns the delta of these records, the last of which will get this offset; changes nothing."""
        delta = Delta(self.image)
        for record in records:
            delta.replay(record)
        delta.at(last_offset, epoch, timestamp_ms)
        return delta

    def apply(self, delta: Delta) -> None:
        """Apply a prepared delta whose records are in the log."""
        assert delta.before is self.image, "the delta was prepared for the current image"
        self.image = delta.image
        self._update_soft_state(delta, delta.image.offset)

    def _update_soft_state(self, delta: Delta, last_offset: int) -> None:
        for broker_id in sorted(delta.brokers):
            broker = delta.image.brokers.get(broker_id)
            if broker is None:
                self.heartbeats.removed(broker_id)
                self.registered_at.pop(broker_id, None)
                continue
            if broker_id in delta.registered:
                self.heartbeats.registered(broker)
                self.registered_at[broker_id] = last_offset
            else:
                self.heartbeats.changed(broker)
        for topic_id in sorted(delta.topics):
            before_topic, topic = delta.before.topics.get(topic_id), delta.image.topics.get(topic_id)
            if before_topic is None and topic is not None:
                self.colliding.add(topic.name)
            elif before_topic is not None and topic is None:
                self.colliding.remove(before_topic.name)
        if self._built_index is not None:
            self._built_index.follow(delta)
        self.existing_acls.follow(delta)
        if any(kind == ConfigResource.BROKER for kind, _ in delta.configs):
            self._load_configs()

    # Configs

    def _load_configs(self) -> None:
        layers = Layers(
            self.options.static.given,
            self.options.static.mode,
            cluster=dict(self.image.configs_of(ConfigResource.BROKER, "")),
            broker=dict(self.image.configs_of(ConfigResource.BROKER, str(self.options.node_id))),
        )
        if layers != self._layers:
            self._layers = layers
            is_static = not layers.cluster and not layers.broker
            self._settings = self.options.static if is_static else layers.settings()

    @property
    def layers(self) -> Layers:
        """The config layers of this node, below those of a topic."""
        assert self._layers is not None, "they are loaded with the first image"
        return self._layers

    @property
    def settings(self) -> Settings:
        """The effective broker configs."""
        return self._settings

    def topic_option(self, topic: str, name: str) -> object:
        """The effective value of one topic config."""
        configured = self.image.configs_of(ConfigResource.TOPIC, topic).get(name)
        if configured is not None:
            return TOPIC.parse_one(name, configured)
        return self._settings[name]

    def min_isr(self, topic: Topic) -> int:
        """At most the number of replicas."""
        configured = self.topic_option(topic.name, MIN_ISR)
        assert isinstance(configured, int), "the option table declares an INT"
        return min(configured, len(topic.partitions[0].replicas))

    def allows_unclean_election(self, topic: str) -> bool:
        return bool(self.topic_option(topic, UNCLEAN_ELECTION))

    @property
    def elr_enabled(self) -> bool:
        return self.image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) >= 1

    @property
    def directories_supported(self) -> bool:
        return self.image.metadata_version >= DIRECTORIES_LEVEL

    # Brokers

    def is_active(self, broker_id: int) -> bool:
        """Whether the broker may lead partitions and be in an ISR."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    def usable_brokers(self) -> list[UsableBroker]:
        """The brokers that may get replicas: all registered ones that are not shutting down."""
        return [
            UsableBroker(broker.id, broker.rack, broker.fenced)
            for _, broker in sorted(self.image.brokers.items())
            if not self.heartbeats.is_shutting_down(broker.id)
        ]

    def default_directory(self, broker_id: int) -> Uuid:
        """The directory of a new replica, as far as the controller knows it."""
        if not self.directories_supported:
            return MIGRATING_DIR
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            return UNASSIGNED_DIR
        if not broker.directories:
            return MIGRATING_DIR
        return broker.directories[0] if len(broker.directories) == 1 else UNASSIGNED_DIR

    def has_online_directory(self, broker_id: int, directory: Uuid) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and has_online_directory(broker, directory)

    def check_broker_epoch(self, broker_id: int, broker_epoch: int) -> Broker:
        """Returns the broker; raises KafkaError if the epoch is not that of its current registration."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}"
            )
        if broker.epoch != broker_epoch:
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}",
            )
        return broker

    # Partitions, in a deterministic order

    def partitions(self) -> Iterator[Entry]:
        for _, topic in sorted(self.image.topics.items()):
            for number, partition in sorted(topic.partitions.items()):
                yield topic, number, partition

    @property
    def _index(self) -> PartitionIndex:
        if self._built_index is None:
            self._built_index = PartitionIndex(self.image)
        return self._built_index

    def leaderless(self) -> Iterator[Entry]:
        return self._index.leaderless(self.image)

    def imbalanced(self) -> Iterator[Entry]:
        """The partitions that the preferred replica does not lead."""
        return self._index.imbalanced(self.image)

    def in_isr(self, broker_id: int) -> Iterator[Entry]:
        return self._index.in_isr(self.image, broker_id)

    def in_elr(self, broker_id: int) -> Iterator[Entry]:
        return self._index.in_elr(self.image, broker_id)

    def in_directory(self, directory: Uuid) -> Iterator[Entry]:
        return self._index.in_directory(self.image, directory)

    def leads_any(self, broker_id: int) -> bool:
        return self._index.leads_any(broker_id)


def has_online_directory(broker: Broker, directory: Uuid) -> bool:
    """An unassigned directory counts as online."""
    if directory in (UNASSIGNED_DIR, MIGRATING_DIR):
        return True
    return directory != LOST_DIR and (not broker.directories or directory in broker.directories)
