"""The uniform assignor: as even as can be, moving as little as can be; the default."""

from __future__ import annotations

from barnabas.coordinator.group.assignors import uniform_heterogeneous, uniform_homogeneous
from barnabas.coordinator.group.assignors.spec import Assignment, GroupSpec

NAME = "uniform"


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    """Members without an entry own nothing."""
    if not spec.members:
        return {}
    if spec.homogeneous:
        return uniform_homogeneous.assign(spec)
    return uniform_heterogeneous.assign(spec)
