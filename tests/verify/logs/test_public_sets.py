"""Public sets of log lines with what people found in them: how much of it `barnabas logs parse` finds.

The sets are beside the oracle, or in the folder that BARNABAS_LOG_SETS names: `SET.log`, `SET.csv` and the program `score`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.verify.conftest import ORACLE

FOLDER = Path(os.environ.get("BARNABAS_LOG_SETS", ORACLE.parents[1] / "logs"))
SETS = sorted(path.stem for path in FOLDER.glob("*.csv")) or ["none"]
LEAST, LEAST_GROUPED, LEAST_GROUPED_ON_AVERAGE = 0.98, 0.85, 0.90


def scores(name: str) -> dict[str, float | None]:
    if name == "none":
        pytest.skip(f"there are no log sets in {FOLDER}; set BARNABAS_LOG_SETS")
    parse = [sys.executable, "-m", "barnabas", "logs", "parse", str(FOLDER / f"{name}.log")]
    parsed = subprocess.run(parse, check=True, capture_output=True).stdout
    score = [sys.executable, str(FOLDER / "score"), str(FOLDER / f"{name}.csv")]
    printed = subprocess.run(score, check=True, capture_output=True, input=parsed).stdout
    found: dict[str, float | None] = json.loads(printed)
    return found


@pytest.mark.parametrize("name", SETS)
def test_what_is_known_of_each_set_is_found(name: str) -> None:
    found = scores(name)
    for of in ("time", "level", "message"):
        share = found[of]
        assert share is None or share >= LEAST, found
    assert (found["group"] or 0.0) >= LEAST_GROUPED, found


def test_lines_are_grouped_as_people_do() -> None:
    grouped = [scores(name)["group"] or 0.0 for name in SETS]
    assert sum(grouped) / len(grouped) >= LEAST_GROUPED_ON_AVERAGE
