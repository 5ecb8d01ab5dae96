"""`make suites`: the number of runs, the saved results, and the exit status."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from barnabas.cli.cluster.processes import start_time
from tools import suites
from tools.suite_record import ONE, THREE, THREE_ON_ZOOKEEPER, Record, Side, Site, load, save
from tools.suite_results import Results

P, F = "passed", "failed"


class Runs:
    """The results of each run, in order."""

    def __init__(self, **by_suite: list[Results]) -> None:
        self.left = {name.replace("_", "-"): list(runs) for name, runs in by_suite.items()}
        self.asked: list[list[str]] = []

    def __call__(self, names: list[str], site: Site) -> dict[str, Results]:
        self.asked.append(list(names))
        self.site = site
        return {name: self.left[name].pop(0) for name in names}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Apache Kafka passes one test of each of two suites."""
    monkeypatch.setattr(suites, "SUITES", tmp_path)
    monkeypatch.setattr(suites, "KEPT", tmp_path / "compatibility.json")
    monkeypatch.setattr(suites, "PAGE", tmp_path / "compatibility.md")
    apache = Side({"kcat": [{"a": P}] * 3, "franz-go": [{"T": P, "U": F}] * 3})
    save(suites.KEPT, {ONE: Record(apache), THREE: Record(Side({"kcat": [{"a": P, "b": P}] * 2}))})
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, runs: Runs, *arguments: str) -> int:
    monkeypatch.setattr(suites, "run_ours", runs)
    monkeypatch.setattr(suites, "run_apache", runs)
    monkeypatch.setattr(sys, "argv", ["suites", *arguments])
    return suites.main()


def test_two_good_runs_are_enough(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(kcat=[{"a": P}] * 2, franz_go=[{"T": P, "U": F}, {"T": P, "U": P}])
    assert run(monkeypatch, runs, "kcat,franz-go") == 0
    assert runs.asked == [["kcat", "franz-go"]] * 2
    kept = load(suites.KEPT)[ONE]
    assert kept.barnabas.verdicts("franz-go") == {"T": P, "U": F}
    assert "| `T` | passed | passed | not run | not run |" in suites.PAGE.read_text("utf-8")


def test_a_third_run_decides_where_two_disagree(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Runs(kcat=[{"a": F}, {"a": P}, {"a": P}], franz_go=[{"T": F}, {"T": P}, {}])
    assert run(monkeypatch, runs, "kcat,franz-go") == 1
    assert runs.asked[2] == ["kcat", "franz-go"]
    shown = capsys.readouterr().out
    assert "kcat: 1 of 1 that pass on Apache Kafka pass here" in shown
    assert "franz-go: 0 of 1 that pass on Apache Kafka pass here\n  T\n" in shown


def test_earlier_results_are_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, Runs(kcat=[{"a": P}] * 2), "kcat") == 0
    assert run(monkeypatch, Runs(franz_go=[{"T": P}] * 2), "franz-go") == 0
    kept = load(suites.KEPT)[ONE]
    assert kept.barnabas.verdicts("kcat") == {"a": P}
    assert kept.barnabas.verdicts("franz-go") == {"T": P}


def test_a_suite_that_could_not_run_fails(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, Runs(kcat=[{}, {}, {}]), "kcat") == 1
    assert run(monkeypatch, Runs(hostile=[{"x": P}] * 2), "hostile") == 1, "nothing is required to pass"


def test_the_other_side_is_recorded(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, Runs(hostile=[{"x": P, "y": F}] * 2), "--apache", "hostile") == 1
    kept = load(suites.KEPT)[ONE]
    assert kept.wanted("hostile") == ["x"]
    assert kept.apache.versions["hostile"] == "4.1.0"
    assert kept.barnabas.runs == {}


def test_an_unknown_suite_and_missing_suites_are_reported(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, Runs(), "kcat,nothing") == 2
    assert "no such suite: nothing. Suites: hostile, kcat" in capsys.readouterr().err
    monkeypatch.setattr(suites, "SUITES", Path("/nowhere/at/all"))
    assert run(monkeypatch, Runs()) == 2
    assert "set BARNABAS_SUITES" in capsys.readouterr().err


def test_a_cluster_has_a_record_of_its_own(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Runs(kcat=[{"a": P, "b": P}] * 2)
    assert run(monkeypatch, runs, "--nodes", "3", "kcat") == 0
    assert runs.site == THREE
    kept = load(suites.KEPT)
    assert kept[THREE].barnabas.verdicts("kcat") == {"a": P, "b": P}
    assert kept[ONE].barnabas.runs == {}
    assert "| `b` | not run | not run | passed | passed |" in suites.PAGE.read_text("utf-8")
    assert run(monkeypatch, Runs(), "librdkafka-three") == 2, "it needs a cluster"
    assert "no such suite: librdkafka-three" in capsys.readouterr().err


def test_a_cluster_on_zookeeper_is_compared_with_the_last_release_that_has_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs(kcat=[{"a": P}] * 2)
    assert run(monkeypatch, runs, "--mode", "zookeeper", "--apache", "kcat") == 1, "ours has not run"
    assert runs.site == THREE_ON_ZOOKEEPER
    assert run(monkeypatch, Runs(kcat=[{"a": P}] * 2), "--mode", "zookeeper", "kcat") == 0
    kept = load(suites.KEPT)[THREE_ON_ZOOKEEPER]
    assert kept.apache.versions["kcat"] == "3.9.1"
    assert kept.missing("kcat") == []
    assert run(monkeypatch, Runs(), "--mode", "zookeeper", "--nodes", "1") == 2


SUITE = """#!/bin/sh
echo "== kcat"; mkdir -p "$SUITE_LOGS/kcat.d"; : > "$SUITE_LOGS/kcat.d/list.log"; : > "$SUITE_LOGS/kcat.d/big.log"
echo "  FAIL big"; echo "== hostile"; echo "  PASS len -1" > "$SUITE_LOGS/hostile.log"
echo "BROKER_PID=$BROKER_PID $*" >> "$(dirname "$0")/called"
"""


def test_a_run_passes_a_broker_to_run_all(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "run-all").write_text(SUITE, "utf-8")
    (place / "run-all").chmod(0o755)
    results = suites.run_ours(["kcat", "hostile"], ONE)
    assert results == {"kcat": {"big": F, "list": P}, "hostile": {"len -1": P}}
    called = (place / "called").read_text("utf-8")
    assert called.startswith("BROKER_PID=")
    assert "BROKER_PID= " not in called
    assert called.endswith(" --only kcat,hostile\n")
    assert " 127.0.0.1:" in called


ALONE = """#!/bin/sh
echo "$BROKERS_COUNT $REPLICATION $BROKER_PID $1" >> "$(dirname "$0")/called"
case $(wc -l < "$(dirname "$0")/called") in 1) word=FAIL;; *) word=PASS;; esac
echo "  $word produce ok" > "$SUITE_LOGS/hostile.log"
"""


def test_a_suite_has_a_cluster_of_its_own(place: Path) -> None:
    """`hostile` is run again until the broker that it talks to leads its topic."""
    (place / "hostile").write_text(ALONE, "utf-8")
    (place / "hostile").chmod(0o755)
    assert suites.run_ours(["hostile"], THREE) == {"hostile": {"produce ok": P}}
    first, second = (place / "called").read_text("utf-8").splitlines()
    assert first == second
    count, replication, pid, addresses = first.split()
    assert (count, replication) == ("3", "3")
    assert len(addresses.split(",")) == 3
    assert start_time(int(pid)) is None, "the cluster is down"
