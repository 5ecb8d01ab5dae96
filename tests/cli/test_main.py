"""The entry point: help, versions, errors and exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barnabas import __version__
from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.cli import main as entry
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.main import COMMANDS, SECTIONS, help_text
from tests.cli.conftest import Call


def python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=300, check=False, **options
    )


def test_version_goes_to_stdout(barnabas: Call) -> None:
    result = barnabas("--version")
    assert (result.code, result.out, result.err) == (0, f"barnabas {__version__}\n", "")


def test_help_names_every_command_on_stdout(barnabas: Call) -> None:
    result = barnabas("--help")
    assert result.code == 0
    assert not result.err
    for name in entry.COMMANDS:
        assert f"\n  {name} " in result.out


def test_without_a_command_the_help_goes_to_stderr_and_it_is_a_usage_error(barnabas: Call) -> None:
    result = barnabas()
    assert result.code == Exit.USAGE
    assert not result.out
    assert result.err.startswith("usage: barnabas COMMAND")


@pytest.mark.parametrize(
    ("wrong", "offered"), [("stroage", "storage"), ("dumplog", "dump-log"), ("--versoin", "--version")]
)
def test_an_unknown_command_is_refused_with_a_suggestion(barnabas: Call, wrong: str, offered: str) -> None:
    result = barnabas(wrong)
    assert result.code == Exit.USAGE
    assert not result.out
    assert result.err.count("\n") == 1
    assert f"did you mean {offered}?" in result.err


def test_a_command_that_resembles_nothing_is_refused_without_a_suggestion(barnabas: Call) -> None:
    result = barnabas("xyzzy")
    assert result.code == Exit.USAGE
    assert result.err == "barnabas: unknown command xyzzy; see barnabas --help\n"


def test_every_command_is_importable_and_shows_help(barnabas: Call) -> None:
    for name in entry.COMMANDS:
        result = barnabas(name, "--help")
        assert result.code == 0, name
        assert result.out.startswith(f"usage: barnabas {name}"), name
        assert not result.err, name


def test_help_imports_no_tool_and_no_parser() -> None:
    done = python("-X", "importtime", "-m", "barnabas", "--help")
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "barnabas.cli.main" in imported
    heavy = {"argparse", "asyncio", "cramjam", "hashlib", "barnabas.batch.view", "barnabas.config"}
    assert not imported & (heavy | {module for module, _ in entry.COMMANDS.values()})


def test_the_help_of_a_command_imports_no_client_and_no_server() -> None:
    program = (
        "import sys; from barnabas.cli import main as m\n"
        "for name in m.COMMANDS: assert m.main([name, '--help']) == 0, name\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    done = python("-c", program)
    imported = set(done.stderr.splitlines())
    assert done.returncode == 0, done.stderr
    assert "barnabas.cli.topics.command" in imported
    heavy = {"asyncio", "ssl", "cramjam", "pyarrow", "pyspark", "barnabas.runtime.network.tcp"}
    packages = ("barnabas.client", "barnabas.broker", "barnabas.storage", "barnabas.batch", "barnabas.spark")
    assert [name for name in imported if name in heavy or name.startswith(packages)] == []


@pytest.mark.parametrize("name", ["dump-log", "server-start", "topics", "console-producer"])
def test_a_tool_of_apache_kafka_without_arguments_prints_its_usage(barnabas: Call, name: str) -> None:
    result = barnabas(name)
    assert (result.code, result.out) == (Exit.USAGE, "")
    assert result.err.startswith(f"usage: barnabas {name} ")


def test_the_module_is_the_command() -> None:
    done = python("-m", "barnabas", "--version")
    assert (done.returncode, done.stdout) == (0, f"barnabas {__version__}\n")


@pytest.mark.trap
@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        (CommandError("no"), 1, "no"),
        (CommandError("gone", Exit.UNREACHABLE), 3, "gone"),
        (KafkaError(ErrorCode.CORRUPT_MESSAGE, "bad"), 1, "barnabas: CORRUPT_MESSAGE: bad"),
        (FileNotFoundError(2, "No such file", "x"), 5, "barnabas: x: No such file"),
        (PermissionError(13, "Permission denied", "x"), 4, "barnabas: x: Permission denied"),
        (OSError(28, "No space left on device", "x"), 1, "barnabas: x: No space left on device"),
        (ValueError("a\nb"), 1, "barnabas: unexpected ValueError: a b (a bug in barnabas; set "),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_no_failure_ends_with_0_and_none_shows_a_traceback(
    barnabas: Call, monkeypatch: pytest.MonkeyPatch, raised: Any, code: int, line: str
) -> None:
    """Trap 24: exit code 0 on failure, the most common CLI bug."""

    def fail(arguments: object) -> int:
        raise raised

    monkeypatch.setattr(entry, "run", fail)
    result = barnabas("anything")
    assert result.code == code
    assert not result.out
    assert result.err.startswith(line)
    assert result.err.count("\n") == (1 if line else 0)


def test_a_bug_shows_its_traceback_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(entry.TRACEBACK_VARIABLE, "1")
    monkeypatch.setattr(entry, "run", lambda arguments: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        entry.main(["anything"])


def test_a_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    program = "import sys; from barnabas.cli import main as m; "
    program += "m.run = lambda a: [print('x' * 70000) for _ in range(20)]; sys.exit(m.main([]))"
    reader, writer = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", program], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    os.read(reader, 10)
    os.close(reader)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == Exit.BROKEN_PIPE
    assert errors == b""


def test_interrupting_ends_with_130_and_no_traceback() -> None:
    # A job in the background of a script has SIGINT ignored, and hands that down: this one must not be.
    program = (
        "import signal, sys, time; from barnabas.cli import main as m\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def run(a):\n print('ready', flush=True)\n time.sleep(600)\n"
        "m.run = run; sys.exit(m.main([]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    finally:
        process.kill()
    assert (process.returncode, errors) == (130, "")


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("--help", 0),
        ("storage random-uuid", 0),
        ("nothing", 2),
        ("dump-log --files 00000000000000000001.log", 5),
        ("dump-log --files 00000000000000000000.log", 0),
    ],
)
def test_closed_streams_change_no_exit_code_and_show_no_traceback(
    tmp_path: Path, arguments: str, code: int, closed: str
) -> None:
    (tmp_path / "00000000000000000000.log").touch()
    line = f"{sys.executable} -m barnabas {arguments} {closed}"
    done = subprocess.run(
        ["/bin/sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == code
    assert "Traceback" not in done.stdout + done.stderr
    assert not done.stdout
    assert (tmp_path / "00000000000000000000.log").read_bytes() == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no device that is always full")
def test_output_that_cannot_be_written_is_one_line_and_1() -> None:
    line = f"{sys.executable} -m barnabas --help > /dev/full"
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert done.stderr == "barnabas: No space left on device\n"


def test_every_command_is_in_one_section_of_the_help() -> None:
    named = [name for _, names in SECTIONS for name in names]
    assert sorted(named) == sorted(COMMANDS)


def test_the_help_fits_80_columns() -> None:
    assert [line for line in help_text().splitlines() if len(line) > 80] == []
