"""Alerts with hysteresis: raised after several bad windows, cleared after several good ones.

Contains the rules (pure), and their keyed state in Spark: one value for each service, JSON, so that rules can
be added and left out without starting over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.spark.logs.columns import ALERTS, schema

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

RATE, COUNT, ABSENCE, NEW_TEMPLATE, BURST = KINDS = ("rate", "count", "absence", "new-template", "burst")
# The mean of so many windows is what is usual, from so many on.
USUAL_WINDOWS, LEAST_WINDOWS = 12, 4


@dataclass(frozen=True, slots=True)
class Rule:
    """Thresholds of alerts; a single bad or good window may be random."""

    name: str = "error-rate"
    # rate: errors per request, or per line where there are no requests.  count: `of` in a window.  absence:
    # no line for `bad_windows` windows.  new-template: lines of a kind that is new in their source.  burst:
    # how many times what is usual `of` is.
    kind: str = RATE
    of: str = "errors"
    service: str = "*"
    bad_rate: float = 0.2
    good_rate: float = 0.05
    bad_windows: int = 2
    good_windows: int = 3
    # Windows with fewer requests are ignored; one with less `of` is no burst.
    least_requests: int = 20


DEFAULT_RULES = (Rule(),)


class Memory(NamedTuple):
    """The state of a service and a rule."""

    is_raised: bool = False
    bad_windows: int = 0
    good_windows: int = 0
    # The last counts, for bursts.
    before: tuple[float, ...] = ()


def value_of(rule: Rule, window: Mapping[str, Any]) -> float | None:
    """What the rule looks at in a window; None if too little is known."""
    if rule.kind == COUNT:
        return float(window[rule.of] or 0)
    if rule.kind == NEW_TEMPLATE:
        return float(window["new_templates"] or 0)
    of = window["requests"] or window["lines"]
    return window["errors"] / of if of >= max(rule.least_requests, 1) else None


def burst_of(rule: Rule, before: Sequence[float], count: float) -> tuple[float, tuple[float, ...]]:
    """How many times the mean of the windows before it a window has (0 while too little is known), and the
    windows before the next one.  They include those of a burst: what lasts becomes usual."""
    usual = sum(before) / len(before) if len(before) >= LEAST_WINDOWS else 0.0
    times = count / usual if usual and count >= rule.least_requests else 0.0
    return times, (*before, count)[-USUAL_WINDOWS:]


def after_window(rule: Rule, memory: Memory, value: float | None) -> tuple[Memory, str | None]:
    """Return the state after one more window, and the change: `raised`, `cleared` or None."""
    if value is None:
        return memory, None
    bad = memory.bad_windows + 1 if value >= rule.bad_rate else 0
    good = memory.good_windows + 1 if value <= rule.good_rate else 0
    if not memory.is_raised and bad >= rule.bad_windows:
        return memory._replace(is_raised=True, bad_windows=bad, good_windows=good), "raised"
    if memory.is_raised and good >= rule.good_windows:
        return memory._replace(is_raised=False, bad_windows=bad, good_windows=good), "cleared"
    return memory._replace(bad_windows=bad, good_windows=good), None


class Service:
    """The state of all rules for one service.  Pure."""

    def __init__(self, name: str, rules: Sequence[Rule], state: str | None) -> None:
        known = json.loads(state) if state else {}
        self._name = name
        self._owner = known.get("owner")
        self._rules = [rule for rule in rules if fnmatchcase(name, rule.service)]
        memories = known.get("rules", {})
        self._memories = {
            rule.name: Memory(*memories[rule.name]) if rule.name in memories else Memory()
            for rule in self._rules
        }
        self.end: datetime | None = None
        if known.get("end"):
            self.end = datetime.fromisoformat(known["end"])

    def state(self) -> str:
        return json.dumps(
            {
                "owner": self._owner,
                "end": None if self.end is None else self.end.isoformat(),
                "rules": {name: list(memory) for name, memory in self._memories.items()},
            }
        )

    def take(self, window: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
        """The changes that one more window makes: rows of ALERTS."""
        self._owner, end = window["owner"], _utc(window["end"])
        self.end = end if self.end is None else max(end, self.end)
        rate = window["errors"] / window["requests"] if window["requests"] else None
        for rule in self._rules:
            memory = self._memories[rule.name]
            if rule.kind == ABSENCE:
                if memory.is_raised:
                    self._memories[rule.name] = Memory()
                    yield self._row(rule, "cleared", end, 0.0, rate)
                continue
            value = value_of(rule, window)
            if rule.kind == BURST:
                value, before = burst_of(rule, memory.before, float(window[rule.of] or 0))
                memory = memory._replace(before=before)
            self._memories[rule.name], change = after_window(rule, memory, value)
            if change is not None:
                yield self._row(rule, change, end, value, rate)

    def deadlines(self, window: timedelta) -> Iterator[tuple[Rule, datetime]]:
        """When each rule of absence is broken if no line comes."""
        for rule in self._rules:
            if rule.kind == ABSENCE and self.end is not None and not self._memories[rule.name].is_raised:
                yield rule, self.end + window * rule.bad_windows

    def expire(self, now: datetime, window: timedelta) -> Iterator[tuple[Any, ...]]:
        """The changes that the time makes."""
        for rule, deadline in list(self.deadlines(window)):
            if now >= deadline:
                self._memories[rule.name] = Memory(True)
                yield self._row(rule, "raised", deadline, 0.0, None)

    def _row(
        self, rule: Rule, change: str, when: datetime, value: float | None, rate: float | None
    ) -> tuple[Any, ...]:
        return (self._name, self._owner, rule.name, change, when, value, rate)


def _utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def alerts(counts: DataFrame, rules: Sequence[Rule] = DEFAULT_RULES, window_s: float = 10.0) -> DataFrame:
    """Turn a stream of counts into changes of state."""
    waits = any(rule.kind == ABSENCE for rule in rules)
    if waits:
        counts = counts.withWatermark("end", "0 seconds")
    return counts.groupBy("service").transformWithStateInPandas(
        statefulProcessor=_processor(tuple(rules), timedelta(seconds=window_s)),
        outputStructType=schema(ALERTS),
        outputMode="Append",
        timeMode="EventTime" if waits else "None",
    )


def _processor(rules: tuple[Rule, ...], window: timedelta) -> Any:
    """Defined here because its base class needs Spark."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Hysteresis(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._handle = handle
            self._state = handle.getValueState("rules", "state string")

        def handleInputRows(  # noqa: N802  # Spark's name.
            self,
            key: Any,
            rows: Iterator[pd.DataFrame],
            timerValues: Any,  # noqa: N803
        ) -> Iterator[pd.DataFrame]:
            import pandas as pd

            service = self._service(key)
            changes: list[tuple[Any, ...]] = []
            for row in pd.concat(list(rows)).sort_values("start").to_dict("records"):
                row["end"] = row["end"].to_pydatetime()
                changes += service.take(row)
            yield self._kept(service, changes)

        def handleExpiredTimer(  # noqa: N802  # Spark's name.
            self,
            key: Any,
            timerValues: Any,  # noqa: N803
            expiredTimerInfo: Any,  # noqa: N803
        ) -> Iterator[pd.DataFrame]:
            service = self._service(key)
            now = datetime.fromtimestamp(expiredTimerInfo.getExpiryTimeInMs() / 1000, UTC)
            yield self._kept(service, list(service.expire(now, window)))

        def _service(self, key: Any) -> Service:
            known = self._state.get() if self._state.exists() else None
            return Service(key[0], rules, None if known is None else known[0])

        def _kept(self, service: Service, changes: list[tuple[Any, ...]]) -> pd.DataFrame:
            import pandas as pd

            self._state.update((service.state(),))
            for _, deadline in service.deadlines(window):
                self._handle.registerTimer(int(deadline.timestamp() * 1000))
            return pd.DataFrame(changes, columns=list(ALERTS))

        def close(self) -> None:
            pass

    return Hysteresis()
