"""The exactly-once sink while drivers, tasks and brokers are killed: every line once in the output.  # M-I1"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.verify.apache_broker import apache_broker
from tests.verify.spark_kill_rounds import Rounds, barnabas_broker
from tests.verify.spark_kills import DRIVER_MOMENTS, TASK_MOMENTS

BROKER_MOMENTS = (
    "fenced",
    "planned",
    "rows-read",
    "rows-written",
    "before-decide",
    "decided",
    "half-ended",
    "ended",
)
DEATHS = (
    *(("driver", moment) for moment in DRIVER_MOMENTS),
    *(("task", moment) for moment in TASK_MOMENTS),
    *(("broker", moment) for moment in BROKER_MOMENTS),
)


def test_every_line_comes_out_once_in_twenty_rounds(tmp_path: Path) -> None:
    assert len(DEATHS) == 20
    with barnabas_broker(tmp_path / "broker") as broker:
        Rounds(tmp_path, broker.bootstrap, lambda: broker.pid).play(DEATHS)


def test_against_apache_kafka(tmp_path: Path, oracle: Callable[..., Any]) -> None:
    deaths = [
        ("driver", "before-decide"),
        ("driver", "decided"),
        ("driver", "half-ended"),
        ("driver", "committed"),
        ("task", "rows-written"),
    ]
    with apache_broker(oracle, "4.1.0", tmp_path / "kafka", {}) as broker:
        Rounds(tmp_path, broker.bootstrap, lambda: 0).play(deaths)
