"""The logs of the clients' test suites, read test by test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.suite_results import SUITE_NAMES, confluent_cases, read_results

CONFLUENT = """
def codec_case(codec): ...
def one(): ...
CASES = [
    *[codec_case(codec) for codec in ("none", "gzip")],
    one, two,
]
"""
KAFKAJS = 'await testCase("create", f);\nawait testCase("create again", f);\nawait testCase("delete", f);'
GO = [
    {"Action": "run", "Package": "p", "Test": "TestA"},
    {"Action": "pass", "Package": "p", "Test": "TestA"},
    {"Action": "run", "Package": "p", "Test": "TestB/x"},
    {"Action": "fail", "Package": "p", "Test": "TestB/x"},
    {"Action": "fail", "Package": "p", "Test": "TestB"},
    {"Action": "skip", "Package": "p", "Test": "TestC"},
    {"Action": "run", "Package": "p", "Test": "TestHung"},
    {"Action": "output", "Package": "p", "Test": "TestA", "Output": "..."},
    {"Action": "fail", "Package": "p"},
]
PYTEST = """\
..F.s                                                [100%]
PASSED test/integration/test_a.py::test_one[gzip]
FAILED test/integration/test_a.py::test_two - AssertionError: no
ERROR test/integration/test_a.py::test_three
SKIPPED [1] test/integration/test_b.py:300: Requires something else
"""
# Suite -> its log files and their contents.
LOGS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "hostile": (
        {
            "hostile.log": f"  PASS {'len 2^31-1':40} closed  0.0 s\n2 1\n",
            "hostile.log.err": f"  FAIL {'len -1':40} stuck  9.0 s\n",
        },
        {"len 2^31-1": "passed", "len -1": "failed"},
    ),
    "kcat": (
        {"kcat.d/list.log": "", "kcat.d/codec_gzip.log": "no\n", "kcat.out": "  FAIL codec_gzip\n"},
        {"codec_gzip": "failed", "list": "passed"},
    ),
    "kafkajs": (
        {"kafkajs.log": "2 1\n", "kafkajs.log.err": "  FAIL create again it did not\n"},
        {"create": "passed", "create again": "failed", "delete": "passed"},
    ),
    "confluent-python": (
        {"confluent-python.log": "4 0\n"},
        {"codec_none": "passed", "codec_gzip": "passed", "one": "passed", "two": "passed"},
    ),
    "kafka-python": (
        {"kafka-python.log": PYTEST},
        {
            "test/integration/test_a.py::test_one[gzip]": "passed",
            "test/integration/test_a.py::test_two": "failed",
            "test/integration/test_a.py::test_three": "failed",
            "test/integration/test_b.py:300": "skipped",
        },
    ),
    "franz-go": (
        {"franz-go.log": "not json\n" + "\n".join(map(json.dumps, GO))},
        {"TestA": "passed", "TestB/x": "failed", "TestC": "skipped", "TestHung": "failed"},
    ),
    "librdkafka": (
        {"librdkafka.log": "0003_b PASS\n0001_a HUNG\n0082_c SKIP\n0107_d NOTRUN\n"},
        {"0001_a": "failed", "0003_b": "passed", "0082_c": "skipped", "0107_d": "failed"},
    ),
    "librdkafka-three": (
        {"librdkafka-three.log": "0003_b PASS\n0001_a HUNG\n0082_c SKIP\n0107_d NOTRUN\n"},
        {"0001_a": "failed", "0003_b": "passed", "0082_c": "skipped", "0107_d": "failed"},
    ),
    "kafka-tools": ({"kafka-tools.d/quorum.log": "", "kafka-tools.out": "\n"}, {"quorum": "passed"}),
}


@pytest.fixture
def suites(tmp_path: Path) -> Path:
    folder = tmp_path / "suites"
    folder.mkdir()
    (folder / "_kafkajs.js").write_text(KAFKAJS, "utf-8")
    (folder / "_confluent.py").write_text(CONFLUENT, "utf-8")
    return folder


@pytest.mark.parametrize("name", SUITE_NAMES)
def test_every_test_has_its_outcome(name: str, suites: Path, tmp_path: Path) -> None:
    files, expected = LOGS[name]
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    assert read_results(name, suites, tmp_path) == expected


def test_a_scenario_that_did_not_end_has_failed(suites: Path, tmp_path: Path) -> None:
    (tmp_path / "kafkajs.log").write_text("connecting\n", "utf-8")
    assert set(read_results("kafkajs", suites, tmp_path).values()) == {"failed"}


@pytest.mark.parametrize("name", ["hostile", "kcat", "kafka-python", "franz-go", "librdkafka", "kafka-tools"])
def test_a_suite_that_did_not_run_has_no_results(name: str, suites: Path, tmp_path: Path) -> None:
    assert read_results(name, suites, tmp_path) == {}


def test_cases_are_found_in_the_source() -> None:
    assert confluent_cases(CONFLUENT) == ["codec_none", "codec_gzip", "one", "two"]
    assert confluent_cases("x = 1") == []
