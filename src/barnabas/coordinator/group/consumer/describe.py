"""ConsumerGroupDescribe."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.coordinator.decision import Context
from barnabas.coordinator.group.assignors.spec import NO_PARTITIONS, Assignment
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member import ConsumerMember
from barnabas.coordinator.group.consumer.options import assignors_of
from barnabas.metadata.image import Image
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse

_CLASSIC, _CONSUMER = 0, 1

Described = ConsumerGroupDescribeResponse


def described(group: ConsumerGroup, context: Context) -> Described.DescribedGroup:
    default = next(iter(assignors_of(context.settings)))
    return Described.DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or default,
        members=[
            _member(member, group.target.get(member.member_id, NO_PARTITIONS), context.image)
            for member in group.members.values()
        ],
    )


def not_described(group_id: str, code: ErrorCode, message: str | None) -> Described.DescribedGroup:
    return Described.DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def _member(member: ConsumerMember, target: Assignment, image: Image) -> Described.Member:
    return Described.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_names),
        subscribed_topic_regex=member.subscribed_regex,
        assignment=_assignment(member.assigned, image),
        target_assignment=_assignment(target, image),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _assignment(assignment: Assignment, image: Image) -> Described.Assignment:
    """Omits deleted topics."""
    return Described.Assignment(
        topic_partitions=[
            Described.TopicPartitions(
                topic_id=topic, topic_name=image.topics[topic].name, partitions=sorted(assignment[topic])
            )
            for topic in sorted(assignment)
            if topic in image.topics
        ]
    )
