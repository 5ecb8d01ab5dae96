"""The exactly-once sink while drivers, tasks and brokers are killed: every line once in the output.  # M-I1"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.sink import test_driver as scenes
from tests.verify.nodes.apache_broker import apache_broker
from tests.verify.spark.support.spark_kill_rounds import Rounds, barnabas_broker
from tests.verify.spark.support.spark_kills import DRIVER_MOMENTS, TASK_MOMENTS

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
PATIENCE_S = 120
DEATHS = (
    *(("driver", moment) for moment in DRIVER_MOMENTS),
    *(("task", moment) for moment in TASK_MOMENTS),
    *(("broker", moment) for moment in BROKER_MOMENTS),
)


def test_every_line_comes_out_once_in_twenty_rounds(tmp_path: Path) -> None:
    assert len(DEATHS) == 20
    with barnabas_broker(tmp_path / "broker") as broker:
        Rounds(tmp_path, broker.bootstrap, lambda: broker.pid).play(DEATHS)


@pytest.mark.parametrize("version", ["3.9.1", "4.1.0"])
def test_the_protocol_holds_against_apache_kafka(
    tmp_path: Path, oracle: Callable[..., Any], version: str
) -> None:
    """3.9.1 ends transactions in the old way (before KIP-890)."""
    with apache_broker(oracle, version, tmp_path / "kafka", {}) as broker:

        def play(name: str) -> Callable[[scenes.Scene], None]:
            return scenes.player(broker.bootstrap, name)

        scenes.test_batches_come_through(play("through"))
        for number, (before, after) in enumerate(scenes.DEATHS):
            scenes.test_a_batch_is_there_once_wherever_its_driver_dies(play(f"dies-{number}"), before, after)
        scenes.test_rows_of_a_decided_transaction_that_was_aborted_are_written_again(play("repair"))
        scenes.test_a_driver_that_was_replaced_can_decide_nothing(play("zombie"))
        scenes.test_transactions_of_speculation_and_lost_tasks_are_swept(play("sweep"))
        scenes.test_an_abandoned_batch_leaves_nothing(play("abort"))


async def time_out(bench: scenes.Bench) -> None:
    """The driver is down between decision and end for longer than its transactions may last."""
    driver = bench.driver(dies_after="decide")
    reports = await bench.tasks(await driver.plan(), 0, 3)
    with pytest.raises(scenes.DiedError):
        await driver.commit(reports)
    async with asyncio.timeout(PATIENCE_S):
        while await bench.calls.ongoing(bench.sink):
            await asyncio.sleep(0.5)
    assert await bench.seen() == Counter(), "all of them were aborted"
    await bench.run(0, 2)
    await bench.run(1, 2)
    assert await bench.seen() == bench.all_of(0, 1)


SHORT = {"kafka.transaction.timeout.ms": "5000"}


def test_a_decision_survives_the_time_out_of_its_transactions(tmp_path: Path) -> None:
    with barnabas_broker(tmp_path / "broker") as broker:
        scenes.player(broker.bootstrap, "late", SHORT)(time_out)


def test_a_decision_survives_the_time_out_against_apache_kafka(
    tmp_path: Path, oracle: Callable[..., Any]
) -> None:
    with apache_broker(oracle, "4.1.0", tmp_path / "kafka", {}) as broker:
        scenes.player(broker.bootstrap, "late", SHORT)(time_out)


def test_every_line_comes_out_once_against_apache_kafka(tmp_path: Path, oracle: Callable[..., Any]) -> None:
    deaths = [
        ("driver", "before-decide"),
        ("driver", "decided"),
        ("driver", "half-ended"),
        ("driver", "committed"),
        ("task", "rows-written"),
    ]
    with apache_broker(oracle, "4.1.0", tmp_path / "kafka", {}) as broker:
        Rounds(tmp_path, broker.bootstrap, lambda: 0).play(deaths)
