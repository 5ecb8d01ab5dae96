"""Consumer lag."""

from __future__ import annotations

import pytest

from barnabas.base.lag import lag


@pytest.mark.trap
def test_lag_is_never_negative_and_counts_no_deleted_records() -> None:
    """Trap 23: Lag is max(HW − max(committed, log start), 0)."""
    assert lag(5, 0, 12) == 7
    assert lag(12, 0, 12) == 0
    assert lag(5, 9, 12) == 3, "deleted records do not count"
    assert lag(20, 0, 12) == 0, "ahead of a truncated log"
    assert lag(5, 12, 12) == 0
