"""Descriptions of streams groups."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.client.admin.calls import operations
from barnabas.client.admin.groups.group_model import (
    StreamsGroupDescription,
    StreamsMember,
    StreamsSubtopology,
    StreamsTasks,
)
from barnabas.client.model import NO_EPOCH, Node
from barnabas.protocol.messages.streams_group_describe import StreamsGroupDescribeResponse
from barnabas.security.acls import Operation


def streams_group(
    group: StreamsGroupDescribeResponse.DescribedGroup, coordinator: Node
) -> StreamsGroupDescription:
    numbers = operations(group.authorized_operations)
    topology = group.topology
    return StreamsGroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        coordinator=coordinator,
        group_epoch=group.group_epoch,
        target_assignment_epoch=group.assignment_epoch,
        topology_epoch=topology.epoch if topology is not None else NO_EPOCH,
        subtopologies=tuple(map(_subtopology, topology.subtopologies or () if topology is not None else ())),
        members=tuple(map(_member, group.members)),
        authorized_operations=None if numbers is None else tuple(map(Operation, numbers)),
    )


def _subtopology(subtopology: StreamsGroupDescribeResponse.Subtopology) -> StreamsSubtopology:
    return StreamsSubtopology(
        subtopology.subtopology_id,
        tuple(subtopology.source_topics),
        tuple(subtopology.repartition_sink_topics),
        tuple(topic.name for topic in subtopology.state_changelog_topics),
        tuple(topic.name for topic in subtopology.repartition_source_topics),
    )


def _member(member: StreamsGroupDescribeResponse.Member) -> StreamsMember:
    return StreamsMember(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        host=member.client_host,
        process_id=member.process_id,
        topology_epoch=member.topology_epoch,
        is_classic=member.is_classic,
        assignment=_tasks(member.assignment),
        target_assignment=_tasks(member.target_assignment),
        group_instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_tags={tag.key: tag.value for tag in member.client_tags},
    )


def _tasks(assignment: StreamsGroupDescribeResponse.Assignment) -> StreamsTasks:
    def by_subtopology(
        tasks: Iterable[StreamsGroupDescribeResponse.TaskIds],
    ) -> dict[str, tuple[int, ...]]:
        return {task.subtopology_id: tuple(task.partitions) for task in tasks}

    return StreamsTasks(
        by_subtopology(assignment.active_tasks),
        by_subtopology(assignment.standby_tasks),
        by_subtopology(assignment.warmup_tasks),
    )
