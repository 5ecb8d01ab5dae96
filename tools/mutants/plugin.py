"""The pytest plugin of `make mutants`: records which test runs which line, or runs a plan.

Environment variables control it, because it runs in the processes of pytest and its workers.
"""

from __future__ import annotations

import faulthandler
import json
import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

# A folder: trace, and write the results there.
TRACE_VARIABLE = "BARNABAS_MUTANTS_TRACE"
# The current test; coverage.rc makes it the context of the processes that the test starts.
TEST_VARIABLE = "BARNABAS_MUTANTS_TEST"
# A file: the tests to run, with their time limits.
PLAN_VARIABLE = "BARNABAS_MUTANTS_PLAN"
# A file: a line of JSON for each test that started or failed.
REPORT_VARIABLE = "BARNABAS_MUTANTS_REPORT"
COVERAGE_VARIABLE = "COVERAGE_PROCESS_START"
COVERAGE_FILE = """\
[run]
data_file = {folder}/.coverage
source = {source}
parallel = true
sigterm = true
context = ${{BARNABAS_MUTANTS_TEST-}}
"""


class Tracer:
    """Records the lines, duration and outcome of each test."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / f"outcomes-{os.getpid()}.jsonl").open("a", buffering=1)
        # Coverage starts with Python in every process that inherits the variable.
        current = coverage.Coverage.current()
        if current is None:
            raise pytest.UsageError(f"coverage ignores {COVERAGE_VARIABLE}: is its .pth file installed?")
        self._coverage = current

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        os.environ[TEST_VARIABLE] = item.nodeid
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = {"test": report.nodeid, "outcome": report.outcome, "seconds": report.duration}
        self._file.write(json.dumps(outcome) + "\n")

    def pytest_unconfigure(self) -> None:
        self._coverage.stop()
        self._coverage.save()


class Follower:
    """Runs the tests of a plan in order, and ends the process if one hangs."""

    def __init__(self, plan: Path, report: Path) -> None:
        read = json.loads(plan.read_text("utf-8"))
        self._limits: dict[str, float] = read["limits"]
        self._ranks: dict[str, int] = {name: rank for rank, name in enumerate(read["files"])}
        self._file = report.open("a", buffering=1)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        wanted = [item for item in items if item.nodeid in self._limits]
        wanted.sort(key=lambda item: self._ranks[item.nodeid.split("::")[0]])
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in self._limits])
        items[:] = wanted

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._note("began", item.nodeid)
        faulthandler.dump_traceback_later(self._limits[item.nodeid], exit=True)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._note("failed", report.nodeid)

    def _note(self, event: str, test: str) -> None:
        self._file.write(json.dumps({event: test}) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    # With xdist only the workers run tests.
    is_controller = bool(getattr(config.option, "numprocesses", None))
    if folder := os.environ.get(TRACE_VARIABLE):
        if not is_controller:
            config.pluginmanager.register(Tracer(Path(folder)), "mutants-tracer")
    elif plan := os.environ.get(PLAN_VARIABLE):
        report = Path(os.environ[REPORT_VARIABLE])
        config.pluginmanager.register(Follower(Path(plan), report), "mutants-follower")
