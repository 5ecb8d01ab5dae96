"""`make mutants`: the possible faults, how they are sampled and tried, and the page."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tools.mutants import record as records
from tools.mutants.choice import candidates, choose, quotas, sources
from tools.mutants.imports import imports_of
from tools.mutants.operators import is_sound, mutants
from tools.mutants.source import Mutant, package_of
from tools.mutants.tracing import Trace
from tools.mutants.trial import SURVIVED, Verdict, in_order, in_stages, read_report

PROJECT = Path(__file__).resolve().parents[2]
PATH = "src/barnabas/raft/made_up.py"
PACKAGES = ("base", "coordinator", "raft", "replica")


def faults(text: str, operator: str | None = None) -> set[str]:
    """The lines that the mutants of a text add."""
    found = [made for made in mutants(PATH, text) if is_sound(made, text)]
    return {
        line.removeprefix("+").strip()
        for made in found
        if operator in (None, made.operator)
        for line in made.diff(text).splitlines()
        if line.startswith("+")
    }


@pytest.mark.parametrize(
    ("text", "operator", "expected"),
    [
        ("x = a < b", "comparison", {"x = (a <= b)", "x = (a >= b)"}),
        ("x = a not in b", "comparison", {"x = (a in b)"}),
        ("LIMIT = 3", "constant", {"LIMIT = 4"}),
        ("LIMIT = 1000", "constant", {"LIMIT = 2000"}),
        ("def f(wait=True): ...", "constant", {"def f(wait=False): ..."}),
        ("def f():\n    sync(a)\n    return 1", "dropped call", {"pass"}),
        ("async def f():\n    await sync(a)", "dropped call", {"pass"}),
        ("def f():\n    yield 1\n    yield 2", "dropped call", {"pass"}),
        ("def f() -> bool:\n    return a.b", "wrong result", {"return not (a.b)"}),
        ("def f() -> list[int]:\n    return a", "wrong result", {"return []"}),
        ("def f() -> Uuid:\n    return a", "wrong result", {"return None"}),
        ("x = a and b", "and or", {"x = (a or b)", "x = (a)", "x = (b)"}),
        ("x = not a", "removed not", {"x = (a)"}),
        ("if a:\n    b()", "branch", {"if False:", "if True:"}),
        ("x = a + b", "arithmetic", {"x = (a - b)"}),
        ("x += b", "arithmetic", {"x -= b"}),
        ("x = min(a, b)", "arguments", {"x = max(a, b)"}),
        ("x = f(a, b, c)", "arguments", {"x = f(b, a, c)"}),
        ("for x in y:\n    break", "loop", {"continue"}),
        ("def f(self):\n    self.x = 1", "dropped assignment", {"pass"}),
    ],
)
def test_an_operator_makes_its_faults(text: str, operator: str, expected: set[str]) -> None:
    assert faults(text, operator) == expected


@pytest.mark.parametrize(
    "text",
    [
        '"""A docstring with a < b and 3."""',
        "def f(a: Literal[3]) -> Literal[4]: ...",
        "assert a < 3",
        "logger.warning('%d', 3)",
        "self._logger.info('%d', a + 3)",
        "raise ValueError(f'{a + 3}', 3)",
        "def __repr__(self):\n    return 3",
        "if TYPE_CHECKING:\n    x = 3",
        "class C(Protocol):\n    x = 3",
        "@planted('bug', scenario='x', within_seeds=3)\ndef bug():\n    x = 3",
        "@dataclass(slots=True)\nclass C: ...",
        "x: TypeAlias = A | B",
        "x = f'{3 + 4}'",
        "while True: ...",
        "def f():\n    yield",
    ],
)
def test_code_that_no_test_should_notice_is_left_alone(text: str) -> None:
    assert faults(text) == set()


def test_an_edit_is_at_the_right_offset_after_multibyte_characters() -> None:
    text = "x = 'Čeština', a < 2\ny = 5\n"
    assert "x = 'Čeština', (a <= 2)" in faults(text, "comparison")
    (second,) = (made for made in mutants(PATH, text) if made.line == 2)
    assert second.apply(text) == "x = 'Čeština', a < 2\ny = 6\n"


def test_a_fault_that_does_not_compile_or_changes_nothing_is_refused() -> None:
    text = "x = 3\n"
    assert not is_sound(Mutant(PATH, 1, 1, 4, 5, "constant", "("), text)
    assert not is_sound(Mutant(PATH, 1, 1, 4, 5, "constant", "(3)"), text)
    assert is_sound(Mutant(PATH, 1, 1, 4, 5, "constant", "4"), text)


def test_every_package_has_its_share() -> None:
    shares = quotas({"large": 9000, "middle": 900, "small": 100, "tiny": 3}, 100)
    assert shares == {"large": 84, "middle": 8, "small": 5, "tiny": 3}
    # If the minimum shares exceed the requested count, they are tried anyway.
    assert quotas({"a": 50, "b": 50, "c": 50}, 10) == {"a": 5, "b": 5, "c": 5}


@pytest.fixture(scope="module")
def offered() -> list[Mutant]:
    """Those of all packages take seconds."""
    return candidates(PROJECT, PACKAGES)


def test_all_packages_but_no_generated_code_are_mutated(offered: list[Mutant]) -> None:
    folders = {path.parent.name for path in (PROJECT / "src" / "barnabas").glob("*/__init__.py")}
    assert {package_of(name) for name in sources(PROJECT)} == {"barnabas", *folders}
    generated = ("src/barnabas/protocol/messages/", "src/barnabas/config/tables/")
    assert not any(name.startswith(generated) for name in sources(PROJECT))
    assert {mutant.package for mutant in offered} == set(PACKAGES)
    assert {mutant.path for mutant in offered} < set(sources(PROJECT, PACKAGES))


def test_the_seed_determines_the_sample_and_no_line_is_mutated_twice(offered: list[Mutant]) -> None:
    chosen = choose(offered, PROJECT, 100, seed=7)
    assert chosen == choose(offered, PROJECT, 100, seed=7)
    assert (
        len({mutant.key for mutant in chosen} & {m.key for m in choose(offered, PROJECT, 100, seed=8)}) < 20
    )
    assert len({(mutant.path, mutant.line) for mutant in chosen}) == len(chosen)
    assert min(Counter(mutant.package for mutant in chosen).values()) >= 5
    for mutant in chosen:
        text = (PROJECT / mutant.path).read_text("utf-8")
        assert ast.dump(ast.parse(mutant.apply(text))) != ast.dump(ast.parse(text))


def test_a_larger_sample_of_one_package_contains_that_of_all(offered: list[Mutant]) -> None:
    sample = {mutant.key for mutant in choose(offered, PROJECT, 100, seed=7) if mutant.package == "replica"}
    alone = choose(candidates(PROJECT, ["replica"]), PROJECT, 50, seed=7)
    assert {mutant.package for mutant in alone} == {"replica"}
    assert len(alone) == 50
    assert sample < {mutant.key for mutant in alone}


def a_trace() -> Trace:
    tests = ["tests/raft/test_made_up.py::a", "tests/raft/test_node.py::b", "tests/broker/test_x.py::c"]
    tests += ["tests/base/test_ids.py::d", "tests/raft/test_log.py::e"]
    return Trace(tests, [9.0, 0.5, 1.0, 0.1, 0.2], [], {PATH: {"3": [0, 2], "4": [1]}})


def test_the_tests_that_run_the_line_are_known() -> None:
    trace = a_trace()
    at_line_3 = Mutant(PATH, 3, 3, 0, 1, "constant", "4")
    assert trace.covering(at_line_3) == {trace.tests[0], trace.tests[2]}
    # A line that runs at import is covered by all tests that use the file.
    assert trace.covering(Mutant(PATH, 1, 1, 0, 1, "constant", "4")) == set(trace.tests[:3])
    assert trace.covering(Mutant("src/barnabas/raft/other.py", 1, 1, 0, 1, "constant", "4")) == set()


def test_tests_near_a_line_are_those_of_the_same_modules_and_of_its_folder() -> None:
    trace = a_trace()
    trace.lines[PATH]["4"] = [2]
    trace.failing.append(trace.tests[4])
    covering, near, others = in_stages(Mutant(PATH, 4, 4, 0, 1, "constant", "4"), trace)
    assert covering == {trace.tests[2]}
    assert near == set(trace.tests[:2])
    assert others == {trace.tests[3]}


def test_imports_are_those_of_files_in_the_tree() -> None:
    files = {
        "src/barnabas/__init__.py",
        "src/barnabas/base/__init__.py",
        "src/barnabas/base/ids.py",
        "tests/a.py",
    }
    assert set(imports_of("from barnabas.base import ids", files)) == files - {
        "src/barnabas/__init__.py",
        "tests/a.py",
    }
    assert set(imports_of("import os, tests.a\nfrom tests import b", files)) == {"tests/a.py"}


def test_the_mirror_of_the_source_comes_first_and_fast_files_before_slow_ones() -> None:
    trace = a_trace()
    ordered = in_order(trace.tests, Mutant(PATH, 3, 3, 0, 1, "constant", "4"), trace)
    assert [test[-1] for test in ordered] == ["a", "e", "b", "c", "d"]


def test_a_report_names_what_failed_and_what_was_cut_short(tmp_path: Path) -> None:
    report = tmp_path / "report.jsonl"
    report.write_text('{"began": "a"}\n{"began": "b"}\n{"failed": "b"}\n', "utf-8")
    assert read_report(report, 1).failed == ["b"]
    report.write_text('{"began": "a"}\n', "utf-8")
    assert read_report(report, -9).last == "a"
    report.write_text("", "utf-8")
    assert read_report(report, 2).last == ""


def test_the_record_is_loaded_and_the_page_shows_survivors(tmp_path: Path) -> None:
    text = "x = 1\ny = a < b\n"
    first, second = (
        m for m in mutants(PATH, text) if m.operator in ("constant", "comparison") and m.after != "(a >= b)"
    )
    record = records.Record("abc", "tree", 1, 2, 40, ["tests/x.py::fails"])
    assert records.load(tmp_path / "results.json") is None
    record.results.append(records.result_of(first, text, Verdict("killed", "tests/raft/test_x.py::t")))
    record.results.append(records.result_of(second, text, Verdict(SURVIVED)))
    records.save(tmp_path / "results.json", record)
    again = records.load(tmp_path / "results.json")
    assert again == record
    assert again.is_same_campaign(record)
    (tmp_path / "survivors.toml").write_text(
        f'[[survivor]]\nfile = "{PATH}"\nnew = "y = (a <= b)"\nreason = "Never equal."\n', "utf-8"
    )
    shown = records.page(again, records.load_reasons(tmp_path / "survivors.toml"))
    assert "**Killed: 1 of 2 (50 %) of the faults**, 1 of 2 (50 %) of all" in shown
    assert "| `raft` | 1 of 2 (50 %) | 1 of 2 (50 %) |" in shown
    assert f"`{PATH}:2` (comparison)\n\n```diff\n-y = a < b\n+y = (a <= b)\n```\n\nNever equal.\n" in shown
    assert "x = 2" not in shown
    assert "- `tests/x.py::fails`" in shown
    with (tmp_path / "survivors.toml").open("a") as reasons:
        reasons.write("equivalent = true\n")
    shown = records.page(again, records.load_reasons(tmp_path / "survivors.toml"))
    assert "**Killed: 1 of 1 (100 %) of the faults**, 1 of 2 (50 %) of all" in shown
    assert "## Survivors\n\nNone.\n\n## Without effect\n\n`" in shown
    assert "Never equal." in shown
