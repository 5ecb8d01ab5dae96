"""Pushed-down filters, without a broker."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql.datasource import GreaterThan, GreaterThanOrEqual

from barnabas.spark.source.filters import Pushed


def test_a_time_before_1970_leaves_nothing_out() -> None:
    """Records without a timestamp have -1; and a broker treats a timestamp of -1 as the end of the
    partition."""
    pushed = Pushed()
    old = GreaterThanOrEqual(("timestamp",), datetime(1960, 1, 1, tzinfo=UTC))
    assert pushed.take([old]) == [old]
    assert pushed.not_before_ms is None
    pushed.take([GreaterThan(("timestamp",), datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)), old])
    assert pushed.not_before_ms == 5000
