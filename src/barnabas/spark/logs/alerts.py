"""Alerts with hysteresis: raised after several bad windows, cleared after several good ones.

Contains the rule (pure), and its keyed state in Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.spark.logs.columns import ALERTS, schema

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Rule:
    """Thresholds of alerts; a single bad or good window may be random."""

    bad_rate: float = 0.2
    good_rate: float = 0.05
    bad_windows: int = 2
    good_windows: int = 3
    # Windows with fewer requests are ignored.
    least_requests: int = 20


class Memory(NamedTuple):
    """The state of a service."""

    is_raised: bool = False
    bad_windows: int = 0
    good_windows: int = 0


def after_window(rule: Rule, memory: Memory, requests: int, errors: int) -> tuple[Memory, str | None]:
    """Return the state after one more window, and the change: `raised`, `cleared` or None."""
    if requests < rule.least_requests:
        return memory, None
    rate = errors / requests
    bad = memory.bad_windows + 1 if rate >= rule.bad_rate else 0
    good = memory.good_windows + 1 if rate <= rule.good_rate else 0
    if not memory.is_raised and bad >= rule.bad_windows:
        return Memory(True, bad, good), "raised"
    if memory.is_raised and good >= rule.good_windows:
        return Memory(False, bad, good), "cleared"
    return Memory(memory.is_raised, bad, good), None


def alerts(counts: DataFrame, rule: Rule | None = None) -> DataFrame:
    """Turn a stream of counts into changes of state."""
    return counts.groupBy("service").transformWithStateInPandas(
        statefulProcessor=_processor(rule or Rule()),
        outputStructType=schema(ALERTS),
        outputMode="Append",
        timeMode="None",
    )


def _processor(rule: Rule) -> Any:
    """Defined here because its base class needs Spark."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Hysteresis(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._memory = handle.getValueState("memory", "is_raised boolean, bad int, good int")

        def handleInputRows(  # noqa: N802  # Spark's name.
            self,
            key: Any,
            rows: Iterator[pd.DataFrame],
            timerValues: Any,  # noqa: N803
        ) -> Iterator[pd.DataFrame]:
            import pandas as pd

            windows = pd.concat(list(rows)).sort_values("start")
            known = self._memory.get() if self._memory.exists() else None
            memory = Memory(*known) if known is not None else Memory()
            changes = []
            for row in windows.itertuples():
                memory, change = after_window(rule, memory, int(row.requests), int(row.errors))
                if change is not None:
                    changes.append((key[0], row.owner, change, row.end, row.errors / row.requests))
            self._memory.update(tuple(memory))
            yield pd.DataFrame(changes, columns=list(ALERTS))

        def close(self) -> None:
            pass

    return Hysteresis()
