"""Formats, fields and sources of one's own, by `--config`.  # M-I3"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from barnabas.cli.main import main
from barnabas.logs.known import Known
from barnabas.logs.reader import CHUNK, Reader
from barnabas.logs.structured import Names
from barnabas.spark.logs.config import read_config

ARRIVAL = datetime(2026, 11, 18, 12)
FUNCTION = r"""
import pyarrow as pa
import pyarrow.compute as pc

def read(lines):
    parts = pc.extract_regex(lines["value"], r"(?P<at>\d+)~(?P<level>\w)~(?P<text>.*)")
    return pa.record_batch({
        "time": pc.struct_field(parts, "at"), "level": pc.struct_field(parts, "level"),
        "message": pc.struct_field(parts, "text"), "length": pc.utf8_length(lines["value"]),
    })

def short(lines):
    return read(lines).slice(0, 1)
"""
CONFIG = r"""
[formats]
ours = '(?P<level>LEVEL)!(?P<service>\w+)!(?P<message>.*)'
tilde = { function = "own.py:read" }
[fields]
time = "when"
message = ["what", "why"]
[sources]
"*.plain" = "general"
"*.d" = "docker+json"
[services]
"*/app.log" = "shop"
"""


def config(folder: Path, more: str = "") -> str:
    (folder / "own.py").write_text(FUNCTION)
    (folder / "logs.toml").write_text(CONFIG + more)
    return str(folder / "logs.toml")


def parsed(folder: Path, name: str, text: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    (folder / name).write_text(text)
    code = main(["logs", "parse", "--config", config(folder), str(folder / name)])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def test_a_pattern_and_a_service(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = parsed(tmp_path, "app.log", "WARN!cart!low\n", capsys)
    assert (row["format"], row["level"], row["message"], row["service"]) == ("ours", "WARN", "low", "shop")


def test_names_of_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = "2024-05-01T10:00:00Z"
    text = json.dumps({"when": at, "why": "w", "message": "m"}) + "\n" + json.dumps({"when": at, "what": "x"})
    first, second = parsed(tmp_path, "a.json", text, capsys)
    assert (first["time"], first["message"], first["fields"]) == (at, "w", {"message": "m"})
    assert second["message"] == "x"
    (row,) = parsed(tmp_path, "b.log", f"when={at} what=pairs\n", capsys)
    assert (row["format"], row["message"]) == ("logfmt", "pairs")


def test_a_function_is_found_by_the_lines_and_leaves_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "1714557600~E~first\n    at a.b\n1714557601~I~second\n1714557602~I~third\nINFO:root:other\n"
    first, second, _, last = parsed(tmp_path, "a.log", text, capsys)
    assert (first["format"], first["time"], first["level"]) == ("tilde", "2024-05-01T10:00:00Z", "ERROR")
    assert (first["message"], first["fields"]) == ("first", {"length": 18, "trace": "    at a.b"})
    assert (second["message"], last["format"], last["message"]) == ("second", "python", "other")


def test_a_function_gets_many_lines_at_once(tmp_path: Path) -> None:
    reader = Reader(ARRIVAL, read_config(config(tmp_path)).known(), "tilde")
    lines = [f"1714557600~I~{number}" for number in range(CHUNK + 5)]
    assert [record.message for record in reader.records(lines)] == [
        str(number) for number in range(CHUNK + 5)
    ]


def test_a_function_that_loses_lines_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = '"*.short" = "short"\n'
    path = config(tmp_path)
    text = CONFIG.replace("[fields]", 'short = { function = "own.py:short" }\n[fields]')
    (tmp_path / "logs.toml").write_text(text.replace("[services]", f"{more}[services]"))
    (tmp_path / "a.short").write_text("1~E~a\n2~E~b\n")
    assert main(["logs", "parse", "--config", path, str(tmp_path / "a.short")]) == 1
    assert "the format short: its function must return a column `message`, and 2 rows" in (
        capsys.readouterr().err
    )


def test_the_format_of_a_source_is_the_only_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = parsed(tmp_path, "a.plain", "2024-05-01 10:00:00,123 INFO [main] a.B: c\n", capsys)
    assert row["format"] == "general"
    wrapped = json.dumps({"log": '{"message":"m"}', "stream": "stdout", "time": "2024-05-01T10:00:00Z"})
    (row,) = parsed(tmp_path, "a.d", f"{wrapped}\n", capsys)
    assert (row["format"], row["message"]) == ("docker+json", "m")


def test_detect_shows_the_format_of_a_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.plain").write_text("2024-05-01 10:00:00,123 INFO [main] a.B: c\n")
    arguments = ["--config", config(tmp_path), str(tmp_path / "a.plain"), "-o", "jsonl"]
    assert main(["logs", "detect", *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "general"


def test_a_config_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["logs", "parse", "--config", str(tmp_path / "gone.toml"), "x"])
    assert (code, "cannot be read" in capsys.readouterr().err) == (2, True)


def test_nothing_known_changes_nothing() -> None:
    line = '{"message":"m","level":"warn"}'
    (record,) = Reader(ARRIVAL, Known(names=Names())).records([line])
    assert (record.message, record.level) == ("m", "WARN")
