"""Cases for the server-side assignors: random histories of groups; each step is one case.

A case is plain JSON, so that Apache Kafka's own classes can compute it too (tests/verify).
"""

from __future__ import annotations

import random
from typing import Any

from barnabas.base.ids import UNASSIGNED_DIR, ZERO_UUID, Uuid
from barnabas.coordinator.group.assignors.spec import Assignment
from barnabas.coordinator.group.consumer.entries import ResolvedRegex
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member import ConsumerMember
from barnabas.coordinator.group.subscription.subscription import TopicHashes, is_homogeneous, topic_hash
from barnabas.coordinator.group.subscription.target import ASSIGNORS, compute_target
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.protocol.records.consumer_group import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from barnabas.protocol.records.metadata import PartitionRecord, RegisterBrokerRecord, TopicRecord

Case = dict[str, Any]

MAX_STEPS = 6
REGEX = "wanted.*"


def image_of(case: Case) -> Image:
    delta = Delta(EMPTY_IMAGE)
    for broker in case["brokers"]:
        delta.replay(
            RegisterBrokerRecord(
                broker_id=broker["id"],
                incarnation_id=ZERO_UUID,
                broker_epoch=1,
                end_points=[],
                features=[],
                rack=broker["rack"],
            )
        )
    for topic in case["topics"]:
        topic_id = Uuid.parse(topic["id"])
        delta.replay(TopicRecord(name=topic["name"], topic_id=topic_id))
        for number, replicas in enumerate(topic["partitions"]):
            delta.replay(
                PartitionRecord(
                    topic_id=topic_id,
                    partition_id=number,
                    replicas=replicas,
                    isr=replicas,
                    removing_replicas=[],
                    adding_replicas=[],
                    leader=replicas[0],
                    directories=[UNASSIGNED_DIR] * len(replicas),
                )
            )
    return delta.image


def group_of(case: Case) -> ConsumerGroup:
    group = ConsumerGroup("g")
    for member in case["members"]:
        group.update_member(member_of(member))
        if member["target"] is not None:
            group.update_target(member["id"], _to_assignment(member["target"]))
    for pattern, topics in case["resolved"].items():
        group.update_regex(pattern, ResolvedRegex(frozenset(topics), 1, 1))
    return group


def member_of(member: dict[str, Any]) -> ConsumerMember:
    return ConsumerMember(
        member["id"],
        instance_id=member["instance"],
        subscribed_names=frozenset(member["names"]),
        subscribed_regex=member["regex"],
    )


def answer(case: Case) -> dict[str, Any]:
    """Our result, in the format of AssignProbe.java."""
    image, group = image_of(case), group_of(case)
    changed = member_of(case["changed"])
    target = compute_target(
        group, 7, ASSIGNORS[case["assignor"]], changed, image, homogeneous=case["homogeneous"]
    )
    written = {
        entry.key.member_id: entry.value
        for entry in target.entries
        if isinstance(entry.key, ConsumerGroupTargetAssignmentMemberKey)
    }
    targets = dict(group.target)
    previous = group.static_members.get(changed.instance_id or "", changed.member_id)
    if previous != changed.member_id:
        targets.pop(previous, None)
    for member_id, value in written.items():
        assert isinstance(value, ConsumerGroupTargetAssignmentMemberValue)
        targets[member_id] = {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions}
    names = [topic["name"] for topic in case["topics"]]
    return {
        "targets": {member: _to_json(target) for member, target in targets.items()},
        "written": sorted(written),
        "hashes": {
            name: _signed(topic_hash(topic, image)) for name in names if (topic := image.topic_named(name))
        },
        "hash": TopicHashes().of_group(names, image),
    }


def cases(seed: int) -> list[Case]:
    """The history of one group."""
    return list(_Life(random.Random(seed)).steps())


class _Life:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._number = 0
        self._homogeneous_life = rng.random() < 0.4
        self._regexes = rng.random() < 0.3
        self.brokers = [
            {"id": number, "rack": rng.choice([None, f"rack-{number % 3}", "räck"])} for number in range(4)
        ]
        self.topics = [self._new_topic() for _ in range(rng.randint(1, 8))]
        self.assignor = rng.choice(["range", "uniform", "uniform"])
        self.members: list[dict[str, Any]] = []

    def steps(self) -> Any:
        for _ in range(self._rng.randint(1, MAX_STEPS)):
            changed = self._change()
            case = {
                "brokers": self.brokers,
                "topics": [dict(topic) for topic in self.topics],
                "members": [dict(member) for member in self.members],
                "resolved": self._resolved(),
                "changed": changed,
                "assignor": self.assignor,
                "homogeneous": False,
            }
            case["homogeneous"] = self._is_homogeneous(case)
            yield case
            self._take_over(changed, answer(case)["targets"])

    def _is_homogeneous(self, case: Case) -> bool:
        group, changed = group_of(case), member_of(case["changed"])
        old = group.members.get(changed.member_id) or group.static_member(changed.instance_id)
        count = len(group.members) + (old is None)
        return is_homogeneous(group.regexes_after(old, changed), group.subscribed_after(old, changed), count)

    def _take_over(self, changed: dict[str, Any], targets: dict[str, Any]) -> None:
        kept = [
            member
            for member in self.members
            if member["id"] != changed["id"]
            and (changed["instance"] is None or member["instance"] != changed["instance"])
        ]
        place = next((n for n, member in enumerate(self.members) if member["id"] == changed["id"]), len(kept))
        kept.insert(place, changed)
        self.members = [{**member, "target": targets.get(member["id"], {})} for member in kept]

    def _change(self) -> dict[str, Any]:
        """The change before the next target is computed, and the member whose request computes it."""
        rng = self._rng
        kind = rng.choice(["join"] * 4 + ["leave", "leave", "grow", "topic", "gone", "subscribe", "replace"])
        if kind == "leave" and len(self.members) > 1:
            for _ in range(rng.randint(1, len(self.members) - 1)):
                self.members.pop(rng.randrange(len(self.members)))
        elif kind == "grow":
            topic = rng.choice(self.topics)
            topic["partitions"] = topic["partitions"] + self._partitions(rng.randint(1, 9))
        elif kind == "topic":
            self.topics.append(self._new_topic())
        elif kind == "gone" and len(self.topics) > 1:
            self.topics.pop(rng.randrange(len(self.topics)))
        elif kind == "subscribe" and self.members:
            member = rng.choice(self.members)
            return {**member, "names": self._names()}
        elif kind == "replace" and any(member["instance"] for member in self.members):
            member = rng.choice([member for member in self.members if member["instance"]])
            return {**member, "id": self._member_id(), "target": None}
        elif kind == "join":
            for _ in range(rng.choice([0, 0, 3, 12])):
                self.members.append(self._new_member())
        if self.members and kind not in ("join", "replace"):
            return dict(rng.choice(self.members))
        return self._new_member()

    def _new_member(self) -> dict[str, Any]:
        rng = self._rng
        regex = REGEX if self._regexes and rng.random() < 0.7 else ""
        return {
            "id": self._member_id(),
            "instance": f"instance-{rng.randint(0, 10**6)}" if rng.random() < 0.3 else None,
            "names": [] if regex and rng.random() < 0.7 else self._names(),
            "regex": regex,
            "target": None,
        }

    def _names(self) -> list[str]:
        names = [topic["name"] for topic in self.topics]
        if not self._homogeneous_life:
            names = self._rng.sample(names, self._rng.randint(0, len(names)))
            if self._rng.random() < 0.2:
                names.append("no-such-topic")
        return sorted(names)

    def _resolved(self) -> dict[str, list[str]]:
        if not self._regexes:
            return {}
        return {REGEX: sorted(topic["name"] for topic in self.topics if topic["name"].startswith("wanted"))}

    def _member_id(self) -> str:
        return str(Uuid(self._rng.randbytes(16)))

    def _new_topic(self) -> dict[str, Any]:
        self._number += 1
        return {
            "name": self._rng.choice(["wanted", "other"]) + f"-{self._rng.randint(0, 999)}-{self._number}",
            "id": str(Uuid(self._rng.randbytes(16))),
            "partitions": self._partitions(self._rng.choice([1, 2, 3, 6, 10, 17, 40])),
        }

    def _partitions(self, count: int) -> list[list[int]]:
        return [self._rng.sample(range(4), self._rng.randint(1, 3)) for _ in range(count)]


def _to_assignment(target: dict[str, list[int]]) -> Assignment:
    return {Uuid.parse(topic): frozenset(partitions) for topic, partitions in target.items()}


def _to_json(target: Assignment) -> dict[str, list[int]]:
    return {str(topic): sorted(partitions) for topic, partitions in target.items()}


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word
