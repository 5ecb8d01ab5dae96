"""What the admin client says of a streams group, from the response of a broker."""

from __future__ import annotations

from barnabas.client.admin.groups.group_model import StreamsTasks
from barnabas.client.admin.groups.streams import streams_group
from barnabas.client.model import Node
from barnabas.protocol.messages.streams_group_describe import StreamsGroupDescribeResponse as Response


def tasks(**partitions: list[int]) -> Response.Assignment:
    kinds = {
        name: [Response.TaskIds(subtopology_id="0", partitions=numbers)]
        for name, numbers in partitions.items()
    }
    empty: dict[str, list[Response.TaskIds]] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    return Response.Assignment(**{**empty, **kinds})


def test_members_have_their_tasks() -> None:
    member = Response.Member(
        member_id="m-1",
        member_epoch=3,
        client_id="app",
        client_host="/10.0.0.1",
        topology_epoch=1,
        process_id="p",
        client_tags=[],
        task_offsets=[],
        task_end_offsets=[],
        assignment=tasks(active_tasks=[0, 2], standby_tasks=[1]),
        target_assignment=tasks(active_tasks=[0], warmup_tasks=[4]),
        is_classic=False,
    )
    group = Response.DescribedGroup(
        error_code=0,
        group_id="g",
        group_state="Reconciling",
        group_epoch=3,
        assignment_epoch=3,
        members=[member],
        authorized_operations=-(2**31),
    )
    (described,) = streams_group(group, Node(1, "localhost", 9092, None)).members
    assert described.assignment == StreamsTasks({"0": (0, 2)}, {"0": (1,)}, {})
    assert described.target_assignment == StreamsTasks({"0": (0,)}, {}, {"0": (4,)})
