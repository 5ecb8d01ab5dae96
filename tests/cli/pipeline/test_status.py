"""The progress of a pipeline, from its checkpoints and a fake cluster."""

from __future__ import annotations

from types import SimpleNamespace, TracebackType
from typing import Any, Self

import pytest

import barnabas.client.sync.admin as admin_module
from barnabas.cli.pipeline.status import _bounds, _lag
from barnabas.client.admin.records import OffsetSpec
from barnabas.client.model import TopicPartition
from barnabas.client.outcomes import Outcomes

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
EDGES = {FIRST: (6, 10), SECOND: (3, 5)}


class FakeAdmin:
    """A cluster with one topic whose first records are deleted."""

    def __init__(self, **_: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def describe_topics(self, names: list[str], **_: Any) -> Any:
        partitions = [SimpleNamespace(partition=where.partition) for where in EDGES]
        return Outcomes({name: SimpleNamespace(name=name, partitions=partitions) for name in names})

    def list_offsets(self, asked: dict[TopicPartition, OffsetSpec], **_: Any) -> Any:
        return Outcomes(
            {
                where: SimpleNamespace(offset=EDGES[where][spec is OffsetSpec.LATEST])
                for where, spec in asked.items()
            }
        )


@pytest.mark.trap
def test_the_lag_of_a_sink_counts_no_deleted_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap 23: lag is max(HW − max(committed, log start), 0)."""
    monkeypatch.setattr(admin_module, "Admin", FakeAdmin)
    behind, ahead = {"orders": {"0": 2}}, {"orders": {"0": 12, "1": 4}}
    bounds, problem = _bounds([behind, ahead], "nobody:1")
    assert problem == ""
    assert _lag(behind, bounds) == (10 - 6) + (5 - 3), "of the other partition nothing was read yet"
    assert _lag(ahead, bounds) == 0 + (5 - 4)
    assert _lag({}, bounds) is None
    assert _lag(behind, {}) is None
