"""Requests of an administrator, drawn at random: right ones, and wrong ones that must change nothing.

Contains the requests and what must be committed when they got a response without an error; not a scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from barnabas.base.ids import Uuid
from barnabas.controller.configs.configs import OpType
from barnabas.metadata.features import FEATURES_BY_NAME
from barnabas.metadata.image import ConfigResource, Image
from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from barnabas.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from barnabas.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.random import SeededRandom
from barnabas.testing.simulation.token_requests import TokenRequests

T = TypeVar("T")

_NO_QUOTAS: Mapping[str, float] = {}
ANY, LITERAL = 1, 3
QUOTAS = (
    "producer_byte_rate",
    "request_percentage",
    "connection_creation_rate",
    "controller_mutation_rate",
    "speed",
)
# Options of each kind of resource with values, the last of which is wrong; and an option that does not exist.
OPTIONS: dict[ConfigResource, dict[str, Sequence[str]]] = {
    ConfigResource.TOPIC: {
        "cleanup.policy": ("delete", "compact", "compact,delete", "shred"),
        "min.insync.replicas": ("1", "2", "0"),
        "retention.bytes": ("1000", "-1", "many"),
        "follower.replication.throttled.replicas": ("*", "0:1,1:1", "0:one"),
        "no.such.option": ("1",),
    },
    ConfigResource.BROKER: {
        "log.retention.ms": ("1000", "-1", "soon"),
        "min.insync.replicas": ("1", "2", "0"),
        "log.cleaner.threads": ("1", "2", "none"),
        "broker.id": ("7",),
    },
    ConfigResource.GROUP: {
        "consumer.session.timeout.ms": ("45000", "50000", "1"),
        "consumer.heartbeat.interval.ms": ("5000", "6000", "never"),
        "no.such.option": ("1",),
    },
    ConfigResource.CLIENT_METRICS: {"interval.ms": ("1000", "5000", "0"), "metrics": ("org.", "")},
}


class Asked(NamedTuple):
    """A request, and whether an image has what it asked for; None if others may undo that."""

    request: Message
    holds: Callable[[Image], bool] | None = None


class Administrator:
    """Draws requests; names are unique, so that a response can be compared with what is committed."""

    def __init__(self, random: SeededRandom) -> None:
        self._random = random
        self._number = 0
        self._kinds = (
            self._incremental_configs,
            self._configs,
            self._quota,
            self._credential,
            self._acl,
            self._acl_deletion,
            self._partitions,
            self._features,
            self._directories,
            self._election,
            self._reassignment,
            self._unregistration,
            self._creation,
            self._token,
        )
        self._tokens = TokenRequests(random)

    def draw(self, image: Image) -> Asked:
        self._number += 1
        return self._one_of(self._kinds)(image)

    def _one_of(self, choices: Sequence[T]) -> T:
        return choices[self._random.integer(0, len(choices) - 1)]

    def _topic(self, image: Image) -> str:
        """Mostly one that exists."""
        names = sorted(image.topic_ids)
        return self._one_of(names) if names and self._random.integer(0, 9) else "no such topic"

    # Configurations

    def _resource(self, image: Image) -> tuple[int, str]:
        match self._random.integer(0, 7):
            case 0 | 1 | 2:
                return ConfigResource.TOPIC, self._topic(image)
            case 3 | 4:
                return ConfigResource.BROKER, self._one_of(("", "1", "1", "99", "one"))
            case 5:
                return ConfigResource.GROUP, self._one_of(("", "g1", "g2"))
            case 6:
                return ConfigResource.CLIENT_METRICS, self._one_of(("", "m1"))
            case _:
                return self._one_of((0, 1, int(ConfigResource.BROKER_LOGGER))), "x"

    def _option(self, kind: int) -> tuple[str, str]:
        options = OPTIONS.get(ConfigResource(kind)) if kind in frozenset(ConfigResource) else None
        if options is None:
            return "x", "y"
        name = self._one_of(sorted(options))
        return name, self._one_of(options[name])

    def _incremental_configs(self, image: Image) -> Asked:
        kind, name = self._resource(image)
        configs = []
        for _ in range(self._random.integer(1, 2)):
            option, value = self._option(kind)
            operation = self._one_of((*OpType, OpType.SET, OpType.SET))
            configs.append(
                IncrementalAlterConfigsRequest.AlterableConfig(
                    name=option,
                    config_operation=operation,
                    value=self._one_of((value, value, value, None)),
                )
            )
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=configs
        )
        resources = [resource] * self._one_of((1, 1, 1, 2))
        return Asked(
            IncrementalAlterConfigsRequest(resources=resources, validate_only=self._random.integer(0, 9) == 0)
        )

    def _configs(self, image: Image) -> Asked:
        kind, name = self._resource(image)
        option, value = self._option(kind)
        config = AlterConfigsRequest.AlterableConfig(name=option, value=self._one_of((value, value, None)))
        resource = AlterConfigsRequest.Resource(resource_type=kind, resource_name=name, configs=[config])
        resources = [resource] * self._one_of((1, 1, 1, 2))
        return Asked(AlterConfigsRequest(resources=resources, validate_only=self._random.integer(0, 9) == 0))

    def _features(self, image: Image) -> Asked:
        updates = []
        for _ in range(self._random.integer(1, 2)):
            name = self._one_of((*FEATURES_BY_NAME, "metadata.version", "kraft.version", "no.such.feature"))
            level = image.features.get(name, 0) + self._random.integer(-1, 1)
            updates.append(
                UpdateFeaturesRequest.FeatureUpdateKey(
                    feature=name,
                    max_version_level=self._one_of((level, level, 99)),
                    upgrade_type=self._one_of((1, 1, 2, 3, 4)),
                )
            )
        validate_only = self._random.integer(0, 1) == 0
        return Asked(UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only))

    # Users

    def _quota(self, image: Image) -> Asked:
        """Of an entity that is new, or exists, or cannot."""
        entity: list[tuple[str, str | None]] = self._one_of(
            (
                [("user", f"u{self._number}")],
                [("user", f"u{self._number}"), ("client-id", None)],
                [("user", None)],
                [("ip", f"10.0.{self._number % 256}.1")],
                [("ip", "no address")],
                [("ip", "10.0.0.1"), ("user", "u")],
                [("user", "")],
                [("shoe size", "43")],
                [],
            )
        )
        if image.quotas and self._random.integer(0, 3) == 0:
            entity = list(self._one_of(sorted(image.quotas, key=repr)))
        key = self._one_of(QUOTAS)
        value = self._one_of((1000.0 + self._number, 1000.0 + self._number, 0.5, 0.0, 1e19))
        op = AlterClientQuotasRequest.OpData(key=key, value=value, remove=self._random.integer(0, 5) == 0)
        entry = AlterClientQuotasRequest.EntryData(
            entity=[
                AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name)
                for kind, name in entity
            ],
            ops=[op] * self._one_of((1, 1, 1, 1, 2)),
        )
        entries = [entry] * self._one_of((1, 1, 1, 1, 2))
        request = AlterClientQuotasRequest(entries=entries, validate_only=False)
        is_new = tuple(sorted(entity, key=repr)) not in image.quotas
        if op.remove or not is_new:
            return Asked(request)
        return Asked(
            request, lambda later: later.quotas.get(tuple(sorted(entity)), _NO_QUOTAS).get(key) == value
        )

    def _credential(self, image: Image) -> Asked:
        if image.scram and self._random.integer(0, 2) == 0:
            mechanism, name = self._one_of(sorted(image.scram))
            deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion(
                name=self._one_of((name, name, "nobody")), mechanism=mechanism
            )
            deletions = [deletion] * self._one_of((1, 1, 1, 2))
            return Asked(AlterUserScramCredentialsRequest(deletions=deletions, upsertions=[]))
        name, mechanism = self._one_of((f"u{self._number}", f"u{self._number}", "")), self._one_of((1, 2, 7))
        upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
            name=name,
            mechanism=mechanism,
            iterations=self._one_of((4096, 4096, 4096, 1, 10**6)),
            salt=b"salt",
            salted_password=b"password",
        )
        upsertions = [upsertion] * self._one_of((1, 1, 1, 2))
        return Asked(
            AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions),
            lambda later: (mechanism, name) in later.scram,
        )

    def _acl(self, image: Image) -> Asked:
        principal = f"User:u{self._number}"
        creation = CreateAclsRequest.AclCreation(
            resource_type=self._one_of((2, 3, 4, 99)),
            resource_name=self._one_of(("orders", "kafka-cluster", "orders", "")),
            resource_pattern_type=self._one_of((LITERAL, LITERAL, 4, ANY)),
            principal=self._one_of((principal, principal, "nobody")),
            host="*",
            operation=self._one_of((3, 4, 8, 0)),
            permission_type=self._one_of((2, 3, 3, 0)),
        )
        creations = [creation] * self._one_of((1, 1, 2))
        return Asked(
            CreateAclsRequest(creations=creations),
            lambda later: any(acl.principal == principal for acl in later.acls.values()),
        )

    def _acl_deletion(self, image: Image) -> Asked:
        principals = sorted(acl.principal for acl in image.acls.values())
        acl_filter = DeleteAclsRequest.Filter(
            resource_type_filter=self._one_of((ANY, ANY, 0)),
            resource_name_filter=None,
            pattern_type_filter=ANY,
            principal_filter=self._one_of(principals) if principals else "User:nobody",
            host_filter=None,
            operation=self._one_of((ANY, ANY, 0)),
            permission_type=ANY,
        )
        return Asked(DeleteAclsRequest(filters=[acl_filter]))

    def _token(self, image: Image) -> Asked:
        return Asked(self._tokens.draw(image, self._number))

    # Partitions and brokers

    def _creation(self, image: Image) -> Asked:
        """With a name, numbers or an assignment of replicas that may be wrong."""
        is_manual = self._random.integer(0, 1) == 0
        assignments = [
            CreateTopicsRequest.CreatableReplicaAssignment(
                partition_index=self._one_of((index, index, index, 0, 7)),
                broker_ids=self._one_of(([1], [1], [1], [7], [1, 1], [])),
            )
            for index in range(self._random.integer(1, 3) if is_manual else 0)
        ]
        new = f"c{self._number}"
        name = self._one_of((new, new, new, "", "a b", "a.b", "a_b", self._topic(image)))
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=self._one_of((-1, -1, -1, 2, 0)),
            replication_factor=self._one_of((-1, -1, -1, 1, 3)),
            assignments=assignments,
            configs=[],
        )
        topics = [topic] * self._one_of((1, 1, 1, 2))
        validate_only = self._random.integer(0, 4) == 0
        request = CreateTopicsRequest(topics=topics, timeout_ms=1, validate_only=validate_only)
        if validate_only or name != new:
            return Asked(request)
        return Asked(request, lambda later: name in later.topic_ids)

    def _partitions(self, image: Image) -> Asked:
        name = self._topic(image)
        topic = image.topic_named(name)
        count = (0 if topic is None else len(topic.partitions)) + self._one_of((1, 1, 2, 0, -1, 10**6))
        assignment = CreatePartitionsRequest.Assignment(broker_ids=self._one_of(([1], [1], [7], [1, 1], [])))
        wanted = CreatePartitionsRequest.Topic(
            name=name, count=count, assignments=self._one_of((None, None, [assignment]))
        )
        topics = [wanted] * self._one_of((1, 1, 1, 1, 2))
        topic_id = image.topic_ids.get(name)

        def holds(later: Image) -> bool:
            found = later.topic_named(name)
            return found is None or found.id != topic_id or len(found.partitions) >= count

        return Asked(CreatePartitionsRequest(topics=topics, timeout_ms=1, validate_only=False), holds)

    def _some_partitions(self, image: Image) -> Iterator[tuple[str, Uuid, int]]:
        for name, topic_id in sorted(image.topic_ids.items()):
            for index in sorted(image.topics[topic_id].partitions):
                if self._random.integer(0, 2) == 0:
                    yield name, topic_id, self._one_of((index, index, index, 99))

    def _directories(self, image: Image) -> Asked:
        broker = self._one_of([None, *(broker for _, broker in sorted(image.brokers.items()))])
        epoch = -1 if broker is None else broker.epoch
        directory = self._one_of([Uuid.from_words(8, 15), *(() if broker is None else broker.directories)])
        topics = [
            AssignReplicasToDirsRequest.TopicData(
                topic_id=self._one_of((topic_id, topic_id, Uuid.from_words(47, 11))),
                partitions=[AssignReplicasToDirsRequest.PartitionData(partition_index=index)],
            )
            for _, topic_id, index in self._some_partitions(image)
        ]
        data = AssignReplicasToDirsRequest.DirectoryData(id=directory, topics=topics)
        return Asked(
            AssignReplicasToDirsRequest(
                broker_id=99 if broker is None else broker.id, broker_epoch=epoch, directories=[data]
            )
        )

    def _election(self, image: Image) -> Asked:
        chosen = [
            ElectLeadersRequest.TopicPartitions(topic=name, partitions=[index])
            for name, _, index in self._some_partitions(image)
        ]
        return Asked(
            ElectLeadersRequest(
                election_type=self._one_of((0, 0, 1)), topic_partitions=self._one_of((chosen, chosen, None))
            )
        )

    def _reassignment(self, image: Image) -> Asked:
        some = list(self._some_partitions(image))
        if self._random.integer(0, 2) == 0:
            listed = [
                ListPartitionReassignmentsRequest.Topics(name=name, partition_indexes=[index])
                for name, _, index in some
            ]
            return Asked(ListPartitionReassignmentsRequest(topics=self._one_of((None, listed))))
        moves = [
            AlterPartitionReassignmentsRequest.ReassignableTopic(
                name=self._one_of((name, name, "no such topic")),
                partitions=[
                    AlterPartitionReassignmentsRequest.ReassignablePartition(
                        partition_index=index,
                        replicas=self._one_of(([1], [1, 2], [], [2], [-1], [1, 1], None)),
                    )
                ],
            )
            for name, _, index in some
        ]
        return Asked(AlterPartitionReassignmentsRequest(topics=moves))

    def _unregistration(self, image: Image) -> Asked:
        return Asked(UnregisterBrokerRequest(broker_id=self._one_of((99, 2))))
