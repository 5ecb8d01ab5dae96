"""dump-log beside the recorded output of Apache Kafka's own tool, file by file, line by line."""

from __future__ import annotations

import re
import shlex
import tarfile
from pathlib import Path

import pytest

MODES = {
    "kraft-3.9.1": "data",
    "kraft-4.1.0": "data",
    "kraft-4.1.0-dynamic-quorum": "controller-101",
    "zk-3.9.1": "data",
}
COMMAND = re.compile(r"^\$ kafka-dump-log\.sh (.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def golden(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(data / "golden-logs.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def recorded(text: str) -> list[tuple[list[str], str, int]]:
    """Arguments, output and exit code of every command in a recorded file."""
    found = []
    starts = [*COMMAND.finditer(text)]
    for match, following in zip(starts, [*starts[1:], None], strict=True):
        body = text[match.end() + 1 : following.start() if following else len(text)]
        output, _, code = body.rpartition("[exit ")
        found.append((shlex.split(match[1]), output, int(code.partition("]")[0])))
    return found


@pytest.mark.parametrize("mode", MODES)
def test_every_file_prints_as_apache_kafka_prints_it(barnabas, golden, monkeypatch, mode):  # M-C3 M-C9 M-E1
    release = "3.9" if "3.9" in mode else "4.1"
    monkeypatch.chdir(golden / mode / MODES[mode])
    compared = 0
    for path in sorted((golden / mode / "dump").iterdir()):
        for arguments, output, code in recorded(path.read_text()):
            ended = barnabas("dump-log", *arguments, "--kafka-release", release)
            assert ended.out + ended.err == output, path.name
            assert ended.code == code, path.name
            compared += 1
    assert compared == {"kraft-4.1.0-dynamic-quorum": 3}.get(
        mode, len(list((golden / mode / "dump").iterdir())) + 1
    )


def test_no_data_file_of_a_broker_is_found_at_fault(barnabas, golden, monkeypatch):
    """Those that were not recorded too: every log, index and snapshot that Apache Kafka wrote."""
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    for mode, folder in MODES.items():
        monkeypatch.chdir(golden / mode / folder)
        # An empty index is left out of the archive's sparse files nowhere; a deleted log may lack its index.
        files = [
            str(path)
            for path in sorted(Path().rglob("0*"))
            if path.suffix in suffixes and not path.parent.name.endswith("-delete")
        ]
        assert len(files) > 3
        ended = barnabas("dump-log", "--deep-iteration", "--files", ",".join(files))
        assert ended.code == 0, ended.err
        gaps = [
            line
            for line in ended.err.splitlines()
            if not re.match(r"Non-consecutive|  \d+ is followed", line)
        ]
        assert not gaps
