"""metadata-shell compared with Apache Kafka's, command by command, and the differences."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.framework.exits import Exit
from barnabas.cli.metadata_shell import interactive
from barnabas.cli.metadata_shell.columns import in_columns
from barnabas.cli.metadata_shell.image_loader import load
from barnabas.cli.metadata_shell.nodes import Leaf, folder
from barnabas.cli.metadata_shell.paths import find
from barnabas.cli.metadata_shell.shell_commands import Shell
from barnabas.cli.metadata_shell.tree import quota_name, root
from barnabas.runtime.disk.folder_disk import FolderDisk
from tests.cli.conftest import Call
from tests.cli.sessions.replay import run_ours

METADATA = "__cluster_metadata-0"
FIRST = "00000000000000000000.log"
TREES = {
    "4.1-log": f"kraft-4.1.0/data/{METADATA}/{FIRST}",
    "4.1-checkpoint": f"kraft-4.1.0/data/{METADATA}/00000000000000000172-0000000001.checkpoint",
    "3.9-log": f"kraft-3.9.1/data/{METADATA}/{FIRST}",
    "dynamic-quorum-log": f"kraft-4.1.0-dynamic-quorum/controller-101/{METADATA}/{FIRST}",
}
# The version of the tool itself differs.
LOCAL = "local:\n"


@pytest.fixture(scope="module")
def golden(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(data / "golden-logs.tar.gz") as archive:
        wanted = [one for one in archive.getmembers() if METADATA in one.name]
        archive.extractall(folder, wanted, filter="data")
    return folder


@pytest.fixture
def log(golden: Path) -> str:
    return str(golden / TREES["4.1-log"])


@pytest.mark.parametrize("name", TREES)
def test_the_tree_matches_apache_kafkas(barnabas: Call, golden: Path, data: Path, name: Any) -> None:  # M-C9
    result = barnabas("metadata-shell", "--snapshot", str(golden / TREES[name]), "tree", "/")
    recorded = (data / "cli" / "metadata-shell" / f"{name}.txt").read_text("utf-8")
    assert result.code == 0
    assert result.out.partition(LOCAL)[0] == recorded.partition(LOCAL)[0]
    assert result.out.partition(LOCAL)[1]


def test_a_session_matches_apache_kafkas(data: Path, log: str) -> None:  # M-C9
    """Input and output, without help and man, whose text differs."""
    recorded = (data / "cli" / "metadata-shell" / "session.txt").read_text("utf-8")
    lines = [line.removeprefix(">> ") for line in recorded.splitlines() if line.startswith(">> ")]
    code, both, _ = run_ours(["metadata-shell", "-s", log], "".join(f"{one}\n" for one in lines).encode())
    assert code == 0
    heading, *answers = both.split(">> ")
    assert heading == "Loading...\nStarting...\n[ Kafka Metadata Shell ]\n"
    for line, answer, wanted in zip(lines, answers, recorded.split(">> ")[1:], strict=False):
        if line not in ("help", "man ls"):
            assert f"{line}\n{answer}" == wanted
    assert len(answers) == len(lines) + 1


def test_help_and_man_name_every_command(log: str) -> None:
    _, both, _ = run_ours(["metadata-shell", "-s", log], b"help\nman find\nman exit\nexit\npwd\n")
    for name in ("cat", "cd", "exit", "find", "help", "history", "ls", "man", "pwd", "tree"):
        assert f"\n  {name} " in both
    assert "find: Search for nodes" in both
    assert "usage: find [PATH...]\n" in both
    assert both.endswith(">> ")


@pytest.mark.trap
@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["cat", "/image/nope"], Exit.NOT_FOUND, "cat: /image/nope: No such file or directory."),
        (["cat", "/image"], Exit.FAILED, "cat: /image: Is a directory"),
        (["ls", "/nope"], Exit.NOT_FOUND, "ls: /nope: no such file or directory."),
        (["find", "/nope"], Exit.NOT_FOUND, "find: /nope: no such file or directory."),
        (["tree", "/nope"], Exit.NOT_FOUND, "tree: /nope: No such file or directory."),
        (["help"], Exit.USAGE, "invalid choice: 'help' (choose from 'cat', 'find', 'ls', 'tree')"),
        (["cat"], Exit.USAGE, "too few arguments"),
    ],
)
def test_a_missing_path_has_a_nonzero_exit_code(
    barnabas: Call, log: str, words: list[str], code: Any, line: str
) -> None:
    """Trap 24: exit code 0 on failure; Apache Kafka's shell has it."""
    result = barnabas("metadata-shell", "--snapshot", log, *words)
    assert (result.code, result.out, result.err) == (code, "", f"{line}\n")


def test_a_file_that_is_being_written_is_read_up_to_its_last_complete_batch(
    golden: Path, tmp_path: Path
) -> None:  # M-C9
    whole = (golden / TREES["4.1-log"]).read_bytes()
    torn = tmp_path / FIRST
    torn.write_bytes(whole[:-7])
    image = load(FolderDisk(), str(torn))
    assert 0 < image.offset < load(FolderDisk(), str(golden / TREES["4.1-log"])).offset


def test_a_log_without_its_start_refers_to_the_snapshot(barnabas: Call, golden: Path, tmp_path: Path) -> None:
    data = (golden / TREES["4.1-log"]).read_bytes()
    middle = tmp_path / "00000000000000000100.log"
    position = 0
    while int.from_bytes(data[position : position + 8], "big") < 100:
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    middle.write_bytes(data[position:])
    result = barnabas("metadata-shell", "-s", str(middle), "ls", "/")
    assert result.code == 1
    assert "use the .checkpoint next to it" in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (b"", Exit.NOT_FOUND, "there are no metadata records"),
        (b"\0" * 61, Exit.FAILED, "smaller than minimum record overhead"),
    ],
)
def test_a_file_without_metadata_is_refused_in_one_line(
    barnabas: Call, tmp_path: Path, content: Any, code: Any, words: str
) -> None:
    path = tmp_path / FIRST
    path.write_bytes(content)
    result = barnabas("metadata-shell", "--snapshot", str(path), "ls")
    assert result.code == code
    assert words in result.err
    assert result.err.count("\n") == 1


def test_records_of_another_topic_and_damage_are_refused(
    barnabas: Call, golden: Path, tmp_path: Path
) -> None:
    damaged = bytearray((golden / TREES["4.1-log"]).read_bytes())
    damaged[70] ^= 1
    (tmp_path / FIRST).write_bytes(damaged)
    result = barnabas("metadata-shell", "-s", str(tmp_path / FIRST), "ls")
    assert (result.code, "its CRC is wrong" in result.err) == (1, True)


def test_without_arguments_the_usage_is_printed_and_a_snapshot_is_required(barnabas: Call) -> None:
    assert barnabas("metadata-shell").code == Exit.USAGE
    assert "--snapshot" in barnabas("metadata-shell", "ls").err
    assert barnabas("metadata-shell", "-s", "nowhere.log", "ls").code == Exit.NOT_FOUND


# Parts ------------------------------------------------------------------------------------------------------

SMALL = folder(
    {
        "a": folder({"one": Leaf("1"), "two": Leaf("2"), "t*o": Leaf("3")}),
        "b,c": folder({"{x": Leaf("4")}),
        "b.c": Leaf("5"),
    }
)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/", ["/"]),
        ("/a/one", ["/a/one"]),
        ("a/../a//one/", ["/a/one"]),
        ("../..", ["/"]),
        ("a/t*", ["/a/t*o", "/a/two"]),
        ("a/t\\*?", ["/a/t*o"]),
        ("a/{one,two}", ["/a/one", "/a/two"]),
        ("b?c", ["/b,c", "/b.c"]),
        ("b.c/x", []),
        ("b,c/{x", ["/b,c/{x"]),
        ("a/one/*", []),
        ("nope", []),
    ],
)
def test_paths_and_patterns(path: str, found: Any) -> None:
    assert [place.absolute for place in find(SMALL, path)] == found


def test_names_are_set_in_columns_as_wide_as_the_screen_allows() -> None:
    names = ["a", "bb", "ccc", "d", "ee"]
    assert list(in_columns(names, None)) == names
    assert list(in_columns(names, 80)) == ["a  bb  ccc  d  ee"]
    assert list(in_columns(names, 14)) == ["a   ccc  ee", "bb  d"]
    assert list(in_columns(names, 3)) == names


def test_quotas_are_named_by_all_their_entities() -> None:
    assert quota_name((("client-id", "a(b)"), ("user", None))) == "clientId(a\\(b\\))_user()"
    assert quota_name((("ip", "1.2.3.4"),)) == "ip(1.2.3.4)"


def test_a_tab_completes_commands_and_paths(golden: Path) -> None:
    shell = Shell(root(load(FolderDisk(), str(golden / TREES["4.1-log"]))), interactive=True)
    assert interactive.candidates(shell, "c") == ["cat", "cd"]
    assert interactive.candidates(shell, "cat im") == ["image/"]
    assert interactive.candidates(shell, "cat image/pro") == ["image/producerIds/", "image/provenance"]
    assert interactive.candidates(shell, "ls /nope/x") == []
    assert interactive.candidates(shell, "man hi") == ["history"]
    shell.run(["cd", "image"])
    assert interactive.candidates(shell, "cat features/meta") == ["features/metadataVersion"]


def test_an_interrupt_discards_the_line_and_an_open_quote_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = iter([KeyboardInterrupt(), "cat 'a", "pwd", EOFError()])

    def typed(prompt: str) -> str:
        line = next(lines)
        if isinstance(line, BaseException):
            raise line
        return str(line)

    monkeypatch.setattr("builtins.input", typed)
    interactive.run_interactive(Shell(SMALL, interactive=True))
    captured = capsys.readouterr()
    assert captured.out.endswith("^C\n/\n")
    assert captured.err == "No closing quotation\n"


def test_a_terminal_completes_the_line_up_to_the_cursor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readline = pytest.importorskip("readline")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(readline, "get_line_buffer", lambda: "cat x")
    monkeypatch.setattr(readline, "get_endidx", lambda: 1)
    before, delimiters = readline.get_completer(), readline.get_completer_delims()

    def end_of_input(_prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", end_of_input)
    try:
        interactive.run_interactive(Shell(SMALL, interactive=True))
        complete = readline.get_completer()
    finally:
        readline.set_completer(before)
        readline.set_completer_delims(delimiters)
    assert [complete("c", number) for number in range(3)] == ["cat", "cd", None]
    assert capsys.readouterr().out.endswith("\n\n"), "the prompt of the system starts a line"


def test_the_history_is_bounded(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("barnabas.cli.metadata_shell.shell_commands.MAX_HISTORY", 2)
    shell = Shell(SMALL, interactive=True)
    for line in ("ls", "pwd", "history"):
        shell.remember(line)
    assert shell.run(["history"]) is Exit.OK
    assert capsys.readouterr().out == "    1  pwd\n    2  history\n"


def test_a_terminal_gets_columns(
    monkeypatch: pytest.MonkeyPatch, log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("ls /image\n"))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((80, 24)))
    from barnabas.cli.main import main

    assert main(["metadata-shell", "-s", log]) == 0
    assert ">> acls          cluster  delegationToken  producerIds  scram\n" in capsys.readouterr().out
