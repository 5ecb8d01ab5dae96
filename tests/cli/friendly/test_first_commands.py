"""What a newcomer types first: flags in any place, output in a pipe, exit codes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.cli.framework.exits import Exit
from barnabas.cli.friendly.output import Column, Printer, check_reader
from tests.cli.conftest import Call

PATIENCE_S = 120


@pytest.fixture
def lines(tmp_path: Path) -> str:
    path = tmp_path / "lines.txt"
    path.write_text("one\ntwo\n", "utf-8")
    return str(path)


@pytest.mark.parametrize(
    "arguments",
    [
        ("TOPIC", "-i", "lines", "FILE", "--create"),
        ("--create", "-i", "lines", "TOPIC", "FILE"),
        ("TOPIC", "FILE", "--create", "-i", "lines"),
        ("TOPIC", "--create", "FILE", "-i", "lines"),
    ],
)
def test_flags_stand_anywhere(barnabas: Call, topic: str, lines: str, arguments: tuple[str, ...]) -> None:
    """`produce TOPIC -i lines FILE` was refused: argparse found no place for FILE."""
    words = [{"TOPIC": topic, "FILE": lines}.get(word, word) for word in arguments]
    result = barnabas("produce", *words, "-o", "jsonl")
    assert result.code == Exit.OK, result.err
    assert json.loads(result.out)["records"] == 2
    assert barnabas("consume", topic, "-n", "1", topic, "--value-only").out == "one\n"


def test_an_unknown_flag_is_still_refused(barnabas: Call, topic: str) -> None:
    for arguments in (
        (topic, "--creat"),
        (topic, "-i", "lines", "--creat", "file"),
        ("a", "b", "--", "-x", "-y"),
    ):
        result = barnabas("produce" if "--creat" in arguments else "context", *arguments)
        assert result.code == Exit.USAGE, result.err


def test_json_is_json_in_every_encoding(barnabas: Call, topic: str, lines: str) -> None:
    """Escapes of the output stream (`\\xf6`) are none that JSON knows."""
    Path(lines).write_text('öl 🐟 "quoted"\n', "utf-8")
    assert barnabas("produce", topic, lines, "-i", "lines", "--create").code == Exit.OK
    for encoding in ("ascii", "latin-1", "utf-8"):
        done = subprocess.run(
            [sys.executable, "-m", "barnabas", "consume", topic, "-o", "jsonl"],
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
            timeout=PATIENCE_S,
            check=True,
        )
        assert json.loads(done.stdout.decode(encoding))["value"] == 'öl 🐟 "quoted"'


def test_indented_json_too() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Printer("json", (Column("a"),), name="a", stream=stream).all([{"a": "ö"}])
    stream.flush()
    assert json.loads(stream.buffer.getvalue()) == [{"a": "ö"}]


@pytest.mark.parametrize("command", [("tail",), ("consume", "-f")])
def test_a_reader_that_has_enough_ends_the_command(
    barnabas: Call, topic: str, lines: str, command: tuple[str, ...]
) -> None:
    """`tail TOPIC | head -1` waited for the next record, to notice that nobody reads it."""
    assert barnabas("produce", topic, lines, "--create").code == Exit.OK
    with subprocess.Popen(
        [sys.executable, "-m", "barnabas", *command, topic, "--value-only"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        process.stdout.close()
        assert process.wait(PATIENCE_S) == Exit.BROKEN_PIPE


def test_a_pipe_with_a_reader_is_left_alone() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        check_reader(stream)
        os.close(reading)
        with pytest.raises(BrokenPipeError):
            check_reader(stream)
    check_reader(io.StringIO())


def test_the_exit_code_of_explain(barnabas: Call, topic: str, group: str, lines: str) -> None:
    """Explained is a success, also of a group that is stuck; what is not there is not."""
    assert barnabas("explain", group).code == Exit.NOT_FOUND
    assert barnabas("produce", topic, lines, "--create").code == Exit.OK
    assert barnabas("consume", topic, "-g", group).code == Exit.OK
    assert barnabas("explain", group, "--watch", "0s").code == Exit.OK
    assert barnabas("explain", group, "--watch", "0s", "-t", topic + "-no").code == Exit.NOT_FOUND
    assert barnabas("explain", "--partitions", "-t", topic + "-no").code == Exit.NOT_FOUND


@pytest.mark.parametrize("flags", [(), ("-daemon",)])
@pytest.mark.parametrize(("text", "code"), [(None, Exit.NOT_FOUND), ("process.roles=nobody\n", Exit.FAILED)])
def test_the_exit_code_of_server_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], text: str | None, code: Exit
) -> None:
    """The same in the background, where every failure was 1."""
    path = tmp_path / "server.properties"
    if text is not None:
        path.write_text(text, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", "server-start", *flags, str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, "BARNABAS_STATE": str(tmp_path / "state")},
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (code, 1), done.stderr
