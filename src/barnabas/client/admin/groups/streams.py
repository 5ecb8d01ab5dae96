"""Streams groups as the admin client tells of them."""

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
    told: StreamsGroupDescribeResponse.DescribedGroup, coordinator: Node
) -> StreamsGroupDescription:
    numbers = operations(told.authorized_operations)
    topology = told.topology
    return StreamsGroupDescription(
        group_id=told.group_id,
        state=told.group_state,
        coordinator=coordinator,
        group_epoch=told.group_epoch,
        target_assignment_epoch=told.assignment_epoch,
        topology_epoch=topology.epoch if topology is not None else NO_EPOCH,
        subtopologies=tuple(map(_subtopology, topology.subtopologies or () if topology is not None else ())),
        members=tuple(map(_member, told.members)),
        authorized_operations=None if numbers is None else tuple(map(Operation, numbers)),
    )


def _subtopology(told: StreamsGroupDescribeResponse.Subtopology) -> StreamsSubtopology:
    return StreamsSubtopology(
        told.subtopology_id,
        tuple(told.source_topics),
        tuple(told.repartition_sink_topics),
        tuple(topic.name for topic in told.state_changelog_topics),
        tuple(topic.name for topic in told.repartition_source_topics),
    )


def _member(told: StreamsGroupDescribeResponse.Member) -> StreamsMember:
    return StreamsMember(
        member_id=told.member_id,
        member_epoch=told.member_epoch,
        client_id=told.client_id,
        host=told.client_host,
        process_id=told.process_id,
        topology_epoch=told.topology_epoch,
        is_classic=told.is_classic,
        assignment=_tasks(told.assignment),
        target_assignment=_tasks(told.target_assignment),
        group_instance_id=told.instance_id,
        rack_id=told.rack_id,
        client_tags={tag.key: tag.value for tag in told.client_tags},
    )


def _tasks(told: StreamsGroupDescribeResponse.Assignment) -> StreamsTasks:
    def by_subtopology(
        tasks: Iterable[StreamsGroupDescribeResponse.TaskIds],
    ) -> dict[str, tuple[int, ...]]:
        return {one.subtopology_id: tuple(one.partitions) for one in tasks}

    return StreamsTasks(
        by_subtopology(told.active_tasks),
        by_subtopology(told.standby_tasks),
        by_subtopology(told.warmup_tasks),
    )
