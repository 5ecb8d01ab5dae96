"""Two of three runs decide; both sides are saved in one file and shown on one page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.suite_record import ONE, THREE, Record, Records, Side, load, page, save, verdict

P, F, S = "passed", "failed", "skipped"


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([], "not run"),
        ([P], P),
        ([F], F),
        ([P, P], P),
        ([P, F], F),
        ([P, F, P], P),
        ([F, F, P], F),
        ([S, S, P], S),
        ([P, F, S], F),
    ],
)
def test_two_of_three_runs_decide(outcomes: list[str], said: str) -> None:
    assert verdict(outcomes) == said


def test_another_run_is_made_where_it_could_change_something() -> None:
    side = Side()
    assert not side.is_decided("kcat", ["a"])
    side.runs["kcat"] = [{"a": P, "b": P}]
    assert not side.is_decided("kcat", ["a"])
    side.runs["kcat"].append({"a": P, "b": F})
    assert side.is_decided("kcat", ["a"])
    assert not side.is_decided("kcat", ["a", "b"])
    side.runs["kcat"].append({"a": P, "b": F})
    assert side.is_decided("kcat", ["a", "b"])


def records() -> Records:
    return {
        ONE: record(),
        THREE: Record(Side({"kcat": [{"a": P, "e": P}] * 2}), Side({"kcat": [{"a": F}] * 2})),
    }


def record() -> Record:
    apache = Side(
        {"kcat": [{"a": P, "b|c": P, "d": S}] * 3, "hostile": [{"x": P}] * 2},
        {"kcat": "4.1.0", "hostile": "4.1.0"},
    )
    ours = Side({"kcat": [{"a": P, "b|c": F, "d": S}, {"a": P}]}, {"kcat": "abc1234"})
    return Record(apache, ours)


def test_tests_that_pass_only_on_apache_kafka_are_missing() -> None:
    made = record()
    assert made.wanted("kcat") == ["a", "b|c"]
    assert made.missing("kcat") == ["b|c"]
    assert made.missing("hostile") == ["x"], "not run is not passed"


def test_a_record_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "compatibility.json"
    assert load(path)[ONE].apache.runs == {}
    save(path, records())
    assert load(path)[THREE].missing("kcat") == ["a", "e"]
    again = load(path)[ONE]
    for suite in ("kcat", "hostile"):
        assert again.apache.verdicts(suite) == record().apache.verdicts(suite)
        assert again.barnabas.verdicts(suite) == record().barnabas.verdicts(suite)
    assert again.barnabas.versions == {"kcat": "abc1234"}
    assert len(again.apache.runs["kcat"]) == 3


def test_the_page_shows_every_test() -> None:
    shown = page(records())
    assert "| suite | Apache Kafka 4.1.0, one node | barnabas, one node | Apache Kafka 4.1.0, three" in shown
    assert "| [kcat](#kcat) | 2 passed, 1 skipped | 1 passed, 2 failed | 2 passed | 1 failed | 3 |\n" in shown
    assert "| [hostile](#hostile) | 1 passed | not run | not run | not run | 1 |\n" in shown
    assert "| `a` | passed | passed | passed | **failed** |\n" in shown
    assert "| `b\\|c` | passed | **failed** | not run | not run |\n" in shown
    assert "| `x` | passed | **not run** | not run | not run |\n" in shown
