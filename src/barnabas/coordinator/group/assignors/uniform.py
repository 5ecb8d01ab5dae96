"""The uniform assignor, the default: balanced assignments with minimal movement."""

from __future__ import annotations

from barnabas.coordinator.group.assignors import uniform_heterogeneous, uniform_homogeneous
from barnabas.coordinator.group.assignors.spec import Assignment, GroupSpec

NAME = "uniform"


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    """Members without an entry are assigned nothing."""
    if not spec.members:
        return {}
    if spec.homogeneous:
        return uniform_homogeneous.assign(spec)
    return uniform_heterogeneous.assign(spec)
