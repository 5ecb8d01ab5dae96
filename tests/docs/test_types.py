"""The programs of the documentation satisfy type checkers, and wrong programs do not.

mypy --strict and pyright look at them as at a user's code: with what the package itself declares.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.testing import Cluster
from tests.docs.pages import Written, steps

PROJECT = Path(__file__).resolve().parents[2]
PATIENCE_S = 600
# Their tests import what other files of the page have.
WITH_MODULES = "make_things_go_wrong:test_your_application"
# Other projects' packages without types.
UNTYPED = """\
[mypy-aiokafka.*,kafka.*,pyarrow.*,fastavro.*]
ignore_missing_imports = True
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python files of all pages, a folder for each page."""
    folder = tmp_path_factory.mktemp("programs")
    settings = f"[mypy]\nstrict = True\nmypy_path = {WITH_MODULES}\n{UNTYPED}"
    (folder / "mypy.ini").write_text(settings, "utf-8")
    count = 0
    for page in [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]:
        for step in steps(page.read_text("utf-8")):
            if isinstance(step, Written) and step.name.endswith(".py"):
                place = folder / re.sub(r"\W", "_", page.stem)
                place.mkdir(exist_ok=True)
                (place / step.name).write_text(step.text, "utf-8")
                count += 1
    assert count > 15
    return folder


def run_mypy(folder: Path, *files: str) -> subprocess.CompletedProcess[str]:
    options = ("--explicit-package-bases", "--no-error-summary", "--cache-dir", str(folder / "cache"))
    config = ("--config-file", "mypy.ini")
    return _run(folder, sys.executable, "-m", "mypy", *config, *options, *(files or (".",)))


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


@pytest.fixture(scope="module")
def pyright(tmp_path_factory: pytest.TempPathFactory) -> str:
    """It is a program for node, which its package fetches with the first call."""
    command = Path(sys.executable).with_name("pyright")
    if not command.exists():
        pytest.skip("pyright is not installed")
    tried = _run(tmp_path_factory.mktemp("pyright"), str(command), "--version")
    if tried.returncode:
        pytest.skip(f"pyright does not start: {tried.stderr.strip()[-200:]}")
    return str(command)


def test_mypy_accepts_the_programs(programs: Path) -> None:
    done = run_mypy(programs)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_pyright_accepts_the_programs(programs: Path, pyright: str) -> None:
    done = _run(programs, pyright, "--pythonpath", sys.executable, ".")
    assert done.returncode == 0, done.stdout


PROGRAM = Path(__file__).parent / "programs" / "warehouse.py"


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_user_program_has_types(checker: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """As pyright's strictest level sees it, too: nothing is of an unknown type."""
    (tmp_path / "warehouse.py").write_text(PROGRAM.read_text("utf-8"), "utf-8")
    if checker == "mypy":
        (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = True\n", "utf-8")
        done = run_mypy(tmp_path, "warehouse.py")
    else:
        command = request.getfixturevalue("pyright")
        (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}', "utf-8")
        done = _run(tmp_path, command, "--pythonpath", sys.executable, "warehouse.py")
    assert done.returncode == 0, done.stdout


def test_the_user_program_works() -> None:
    with Cluster() as cluster:
        done = _run(PROJECT, sys.executable, str(PROGRAM), cluster.bootstrap_servers)
    assert done.returncode == 0, done.stderr
    assert ast.literal_eval(done.stdout) == {
        "partitions": {"warehouse.orders": 2, "warehouse.stock": 1},
        "levels": {"pears": 2, "figs": 2, "melons": 1_000, "last": 0},
        "items": ["figs", "last", "melons", "pears"],
        "report": ["figs: 2", "last: 0", "melons: 1000", "pears: 2", "from 0"],
        "buried": "warehouse.dead: ValueError: 1000 melons are too many",
        "lost": 1,
    }


WRONG = {
    'Producer(bootstrap_servers="a:1", linger_mss=5)': "linger_mss",
    'Producer(bootstrap_servers="a:1", linger_ms="5")': "linger_ms",
    'Consumer("t", bootstrap_servers="a:1", group_idd="g")': "group_idd",
    'Producer(bootstrap_servers="a:1").send("t", "text")': "str",
    'Producer(bootstrap_servers="a:1", value_serializer=STRING).send("t", b"bytes")': "bytes",
    'Consumer("t", bootstrap_servers="a:1", value_deserializer=LONG).poll()[0].value.decode()': "decode",
    'Consumer("t", bootstrap_servers="a:1").poll()[0].key.decode()': "decode",
    'Consumer(bootstrap_servers="a:1").assign(["t"])': "TopicPartition",
    'Admin(bootstrap_servers="a:1").create_topics(["t"])': "NewTopic",
}
HEAD = """\
from barnabas.client.serialization import LONG, STRING
from barnabas.client.sync import Admin, Consumer, Producer

"""


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_wrong_programs_are_reported(
    checker: str, programs: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Each line of them, with the word that is wrong."""
    text = HEAD + "".join(f"{line}\n" for line in WRONG)
    name = "wrong_programs.py"
    if checker == "mypy":
        (tmp_path / "mypy.ini").write_text(f"[mypy]\nstrict = True\n{UNTYPED}", "utf-8")
        (tmp_path / name).write_text(text, "utf-8")
        done = run_mypy(tmp_path, name)
    else:
        command = request.getfixturevalue("pyright")
        (tmp_path / name).write_text(text, "utf-8")
        done = _run(tmp_path, command, "--pythonpath", sys.executable, name)
    first = HEAD.count("\n") + 1
    for number, (line, word) in enumerate(WRONG.items(), first):
        found = [told for told in done.stdout.splitlines() if re.search(rf"\.py:{number}:", told)]
        assert any("error" in told for told in found), (line, done.stdout)
        assert word in done.stdout
