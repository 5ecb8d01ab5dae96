"""dump-log compared with the recorded output of Apache Kafka's tool, file by file, line by line."""

from __future__ import annotations

import re
import shlex
import tarfile
from pathlib import Path
from typing import Any

import pytest

from barnabas.runtime.random import SeededRandom
from tests.cli.conftest import Call

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
def test_every_file_prints_as_apache_kafka_prints_it(
    barnabas: Call, golden: Path, monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:  # M-C3 M-C9 M-E1
    release = "3.9" if "3.9" in mode else "4.1"
    monkeypatch.chdir(golden / mode / MODES[mode])
    compared = 0
    for path in sorted((golden / mode / "dump").iterdir()):
        for arguments, output, code in recorded(path.read_text("utf-8")):
            result = barnabas("dump-log", *arguments, "--kafka-release", release)
            assert result.out + result.err == output, path.name
            assert result.code == code, path.name
            compared += 1
    assert compared == {"kraft-4.1.0-dynamic-quorum": 3}.get(
        mode, len(list((golden / mode / "dump").iterdir())) + 1
    )


def test_no_data_file_of_a_broker_has_faults(
    barnabas: Call, golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Including those whose dump was not recorded: every log, index and snapshot of Apache Kafka."""
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    for mode, folder in MODES.items():
        monkeypatch.chdir(golden / mode / folder)
        # The index of a deleted partition was too large to be recorded.
        files = [
            str(path)
            for path in sorted(Path().rglob("0*"))
            if path.suffix in suffixes and not path.parent.name.endswith("-delete")
        ]
        assert len(files) > 3
        result = barnabas("dump-log", "--deep-iteration", "--files", ",".join(files))
        assert result.code == 0, result.err
        gaps = [
            line
            for line in result.err.splitlines()
            if not re.match(r"Non-consecutive|  \d+ is followed", line)
        ]
        assert not gaps


DECODERS = {
    "__consumer_offsets-0": "--offsets-decoder",
    "__transaction_state-0": "--transaction-log-decoder",
    "__cluster_metadata-0": "--cluster-metadata-decoder",
}


@pytest.mark.parametrize("seed", range(4))
def test_flipped_and_torn_files_are_handled(
    barnabas: Call, golden: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: Any
) -> None:
    """Whatever a file contains, the dump exits with 0 or 1, with one line per fault."""
    source = golden / "kraft-4.1.0" / "data"
    random = SeededRandom(seed)
    folders = sorted(path for path in source.iterdir() if path.is_dir())
    ends = set()
    for _ in range(100):
        folder = folders[random.integer(0, len(folders) - 1)]
        names = sorted(path.name for path in folder.iterdir() if path.name[:1] == "0" and path.stat().st_size)
        if not names:
            continue
        copy = tmp_path / folder.name
        copy.mkdir(exist_ok=True)
        for name in names:
            (copy / name).write_bytes((folder / name).read_bytes())
        spoilt = names[random.integer(0, len(names) - 1)]
        content = bytearray((copy / spoilt).read_bytes())
        for _ in range(random.integer(0, 3)):
            content[random.integer(0, len(content) - 1)] ^= 1 << random.integer(0, 7)
        (copy / spoilt).write_bytes(content[: random.integer(len(content) // 2, len(content))])
        monkeypatch.chdir(copy)
        decoder = DECODERS.get(folder.name, "--print-data-log")
        result = barnabas("dump-log", decoder, "--files", ",".join(names))
        assert result.code in (0, 1, 5), result.err
        assert "unexpected" not in result.err
        assert "Traceback" not in result.err
        ends.add(result.code)
    assert 1 in ends
