"""When a controller may stop: the others must be a quorum without it (M-C8)."""

from __future__ import annotations

import pytest

from barnabas.base.ids import Uuid
from barnabas.cli.cluster.restart import _why_no_quorum
from barnabas.client.admin.cluster_calls import QuorumInfo, QuorumReplica

END = 100


def quorum(**ends: int) -> QuorumInfo:
    """Voters `n1`, `n2`, … and the ends of their logs."""
    voters = tuple(
        QuorumReplica(int(name[1:]), Uuid(bytes(16)), end, None, None) for name, end in ends.items()
    )
    return QuorumInfo(1, 3, END, voters, (), {})


@pytest.mark.parametrize(
    ("node_id", "ends", "behind"),
    [
        (1, {"n1": END, "n2": END, "n3": END + 4}, None),
        (1, {"n1": END, "n2": END, "n3": 7}, "3"),
        # It is the one that is behind: the others do without it.
        (3, {"n1": END, "n2": END, "n3": 7}, None),
        (1, {"n1": END, "n2": END, "n3": 7, "n4": END, "n5": END}, None),
        (1, {"n1": END, "n2": END, "n3": 7, "n4": 8, "n5": END}, "3, 4"),
        # A broker alone.
        (9, {"n1": END, "n2": END, "n3": 7}, None),
        # Nothing to wait for: there is no quorum without it in any case.
        (1, {"n1": END}, None),
        (1, {"n1": END, "n2": 7}, None),
    ],
)
def test_the_others_are_a_quorum(node_id: int, ends: dict[str, int], behind: str | None) -> None:
    why = _why_no_quorum(node_id, quorum(**ends))
    assert why == (
        f"until the other controllers are a quorum without it; behind in the metadata log: {behind}"
        if behind
        else ""
    )
