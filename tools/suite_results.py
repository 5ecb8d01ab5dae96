"""The results of a run of a client's test suite, test by test, from its logs.

The suites write their logs into one folder: `NAME.log`, for some `NAME.log.err` and a folder `NAME.d` with a
log for each case.  Each has its own format; here all become `test -> passed, failed or skipped`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
# Makes pytest list every test with its outcome in its log.
ENVIRONMENT = {"PYTEST_ADDOPTS": "-rpfEs"}

Results = dict[str, str]
_TOTALS = re.compile(r"\d+ \d+")
_ENDED = {"pass": PASSED, "skip": SKIPPED}
_LIBRDKAFKA = {"PASS": PASSED, "SKIP": SKIPPED}


def read_results(name: str, suites: Path, logs: Path) -> Results:
    """The results of a suite; empty if it has not run."""
    return _READERS[name](suites, logs)


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _probes(suites: Path, logs: Path) -> Results:
    """`  PASS name, padded to 40 characters  result`."""
    lines = (_text(logs / "hostile.log") + _text(logs / "hostile.log.err")).splitlines()
    words = {"  PASS": PASSED, "  FAIL": FAILED}
    return {line[7:47].strip(): words[line[:6]] for line in lines if line[:6] in words}


def _scenario(name: str, cases: Iterable[str], logs: Path) -> Results:
    """Only failures are named; a scenario that did not finish has failed completely."""
    last = (_text(logs / f"{name}.log").strip().splitlines() or [""])[-1]
    errors = [line[7:] for line in _text(logs / f"{name}.log.err").splitlines() if line.startswith("  FAIL ")]
    if not _TOTALS.fullmatch(last):
        return dict.fromkeys(cases, FAILED)
    results = dict.fromkeys(cases, PASSED)
    for line in errors:
        # The reason follows the name; one name may be a prefix of another.
        named = [case for case in results if f"{line} ".startswith(f"{case} ")]
        results[max(named, key=len, default=line)] = FAILED
    return results


def _kafkajs(suites: Path, logs: Path) -> Results:
    cases = re.findall(r'testCase\("([^"]+)"', _text(suites / "_kafkajs.js"))
    return _scenario("kafkajs", cases, logs)


def _confluent(suites: Path, logs: Path) -> Results:
    return _scenario("confluent-python", confluent_cases(_text(suites / "_confluent.py")), logs)


def confluent_cases(source: str) -> list[str]:
    """The functions in its list of cases; one of them is generated for each codec."""
    cases: list[str] = []
    for statement in ast.parse(source).body:
        if not isinstance(statement, ast.Assign) or ast.unparse(statement.targets[0]) != "CASES":
            continue
        assert isinstance(statement.value, ast.List)
        for element in statement.value.elts:
            if isinstance(element, ast.Name):
                cases.append(element.id)
            else:
                cases += [
                    f"codec_{node.value!s}" for node in ast.walk(element) if isinstance(node, ast.Constant)
                ]
    return cases


def _cases(name: str, logs: Path) -> Results:
    """A shell suite: one log for each case, and `  FAIL case` in its output."""
    printed = _text(logs / f"{name}.out")
    failed = set(re.findall(r"^  FAIL (\S+)$", printed, re.MULTILINE))
    cases = sorted(path.stem for path in (logs / f"{name}.d").glob("*.log"))
    return {case: FAILED if case in failed else PASSED for case in cases}


def _pytest(suites: Path, logs: Path) -> Results:
    """The summary of `-rpfEs`; a skipped test is named by its location."""
    results = {}
    for line in _text(logs / "kafka-python.log").splitlines():
        match = re.match(r"(PASSED|FAILED|ERROR) (test/\S+)", line)
        if match:
            results[match[2]] = PASSED if match[1] == "PASSED" else FAILED
        elif match := re.match(r"SKIPPED \[\d+\] (test/\S+):", line):
            results[match[1]] = SKIPPED
    return results


def _go(suites: Path, logs: Path) -> Results:
    """`go test -json`: the last event of each test; a test with subtests is not counted."""
    last: dict[str, str] = {}
    for line in _text(logs / "franz-go.log").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if (
            isinstance(event, dict)
            and event.get("Test")
            and event["Action"] in ("run", "pass", "fail", "skip")
        ):
            last[event["Test"]] = event["Action"]
    parents = {test.rsplit("/", 1)[0] for test in last if "/" in test}
    return {test: _ENDED.get(how, FAILED) for test, how in last.items() if test not in parents}


def _librdkafka(name: str, logs: Path) -> Results:
    pairs = re.findall(r"^(\d{4}_\w+) ([A-Z]+)$", _text(logs / f"{name}.log"), re.MULTILINE)
    return {test: _LIBRDKAFKA.get(how, FAILED) for test, how in sorted(pairs)}


_READERS: Mapping[str, Callable[[Path, Path], Results]] = {
    "hostile": _probes,
    "kcat": lambda suites, logs: _cases("kcat", logs),
    "kafkajs": _kafkajs,
    "confluent-python": _confluent,
    "kafka-python": _pytest,
    "franz-go": _go,
    "librdkafka": lambda suites, logs: _librdkafka("librdkafka", logs),
    "librdkafka-three": lambda suites, logs: _librdkafka("librdkafka-three", logs),
    "kafka-tools": lambda suites, logs: _cases("kafka-tools", logs),
}
SUITE_NAMES = tuple(_READERS)
# Our own choice of a client's tests, for a cluster.
ONLY_FOR_CLUSTERS = ("librdkafka-three",)
