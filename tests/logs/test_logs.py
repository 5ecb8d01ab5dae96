"""Log lines: formats, wrappers, stack traces, templates, the command.  # M-I3"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from barnabas.cli.main import main
from barnabas.logs.files import NotALogError, read_records
from barnabas.logs.reader import Reader
from barnabas.logs.records import Record
from barnabas.logs.templates import WORDS, Templates
from tests.logs.lines import LINES, Expected
from tests.logs.lines_apps import APP_LINES
from tests.logs.lines_columns import COLUMN_LINES
from tests.logs.lines_json import JSON_LINES
from tests.logs.lines_servers import SERVER_LINES
from tests.logs.lines_system import SYSTEM_LINES
from tests.logs.lines_text import TEXT_LINES
from tests.logs.lines_web import WEB_LINES
from tests.logs.lines_wrapped import WRAPPED_LINES

ALL = (
    *(*LINES, *JSON_LINES, *TEXT_LINES, *COLUMN_LINES, *WRAPPED_LINES),
    *(*WEB_LINES, *SERVER_LINES, *APP_LINES, *SYSTEM_LINES),
)

ARRIVAL = datetime(2026, 11, 18, 12)


def records(*lines: str) -> list[Record]:
    return list(Reader(ARRIVAL).records(lines))


@pytest.mark.parametrize("expected", ALL, ids=[f"{row[1]}-{n}" for n, row in enumerate(ALL)])
def test_what_a_line_says(expected: Expected) -> None:
    (record,) = records(expected[0])
    assert (record.format, record.time, record.level, record.service, record.message) == expected[1:]


def test_lines_without_a_tag_do_not_hide_the_tags_of_others() -> None:
    tagged = "Jul  1 09:03:10 mac com.x.launchd[1] (com.x.y[12]): Service exited"
    plain = "Jul  1 09:03:10 mac --- last message repeated 1 time ---"
    first, second, _ = records(tagged, plain, tagged)
    assert (first.service, first.message) == ("com.x.launchd", "Service exited")
    assert (second.service, second.message) == (None, "--- last message repeated 1 time ---")


def test_a_source_of_unknown_lines_keeps_json_and_traces_apart() -> None:
    unknown = ["[10.30 16:49:06] chrome.exe - a.b.cd:80 open"] * 120
    read = records(*unknown, '{"level":"warn","msg":"m"}', unknown[0], "    at 10:00:00.123 x", "nothing")
    assert [record.format for record in read[119:]] == ["general", "json", "general", "unknown"]
    assert (read[120].message, read[121].fields["trace"]) == ("m", "    at 10:00:00.123 x")


def test_fields_that_have_no_name_of_their_own_are_kept() -> None:
    (record,) = records("Dec  1 06:55:46 web sshd[24200]: hello")
    assert record.fields == {"host": "web", "pid": "24200"}


def test_stack_traces_belong_to_the_line_before() -> None:
    lines = (
        "2024-05-01 10:00:00,123 - app - ERROR - failed",
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in <module>',
        "ValueError: bad",
        "2024-05-01 10:00:01,123 - app - INFO - on",
    )
    first, second = records(*lines)
    assert first.fields["trace"] == "\n".join(lines[1:4])
    assert second.message == "on"


def test_java_traces_in_docker_json() -> None:
    logged = [
        "10:00:00.123 [main] ERROR c.e.App - bad\n",
        "java.lang.Error: x\n",
        "\tat a.B(C.java:1)\n",
        "plain\n",
    ]
    lines = [
        json.dumps({"log": text, "stream": "stderr", "time": f"2024-05-01T10:00:0{n}Z"})
        for n, text in enumerate(logged)
    ]
    first, second = records(*lines)
    assert (first.format, first.fields["trace"]) == ("docker+log4j", "java.lang.Error: x\n\tat a.B(C.java:1)")
    assert (second.message, second.time) == ("plain", "2024-05-01T10:00:03Z")


def test_parts_of_cri_lines_are_joined() -> None:
    (record,) = records(
        '2024-05-01T10:00:00.1Z stdout P {"level":"info",', '2024-05-01T10:00:00.2Z stdout F "msg":"m"}'
    )
    assert (record.format, record.time, record.message) == ("cri+json", "2024-05-01T10:00:00.2Z", "m")


def test_templates_mask_values_and_words_that_vary() -> None:
    templates = Templates()
    names = ["ann", "bob", "eve", "joe"][:WORDS]
    messages = [f"login of {name} from 10.0.0.{n}" for n, name in enumerate(names)]
    templates.learn([*messages, "cache is cold", "cache is warm"])
    assert {templates.of(message) for message in messages} == {"login of <*> from <*>"}
    assert templates.of("cache is cold") != templates.of("cache is warm")


def test_words_after_an_equals_sign_vary_when_several_were_seen() -> None:
    templates = Templates()
    templates.learn(["login user=root port=1", "login user=guest port=2"])
    assert templates.of("login user=root port=3") == "login user=root port=<*>"
    templates.learn([f"login user={name} port=1" for name in ("ann", "bob", "eve")][: WORDS - 1])
    assert templates.of("login user=root port=3") == "login user=<*> port=<*>"


def test_a_value_after_an_equals_sign_that_is_no_word_varies() -> None:
    templates = Templates()
    templates.learn(["open file=core", "open file=a.b.c"])
    assert templates.of("open file=core") == templates.of("open file=a.b.c") == "open file=<*>"


@pytest.mark.parametrize(
    ("messages", "template"),
    [
        (
            ('10.0.0.1 "GET /a/b HTTP/1.1" 200', '10.0.0.2,10.0.0.1 "GET /c HTTP/1.1" 404'),
            '<*> "GET <*>" <*>',
        ),
        (("a.example.com:80 close", "db.local:5432 close"), "<*> close"),
        (("from 00:1a:2b:3c:4d:5e via eth0", "from fe80::be:ef via eth1"), "from <*> via <*>"),
        (("size 384.0 B, free 1.5 GB", "size 5.2 KB, free 512 MiB"), "size <*>, free <*>"),
        (("check: fetch......0", "check: fetch......12"), "check: fetch... <*>"),
        (("package A-b~31bf~amd64~~6.1.1", "package C~31bf~x86~en~6.1"), "package <*>"),
        (("main.go:12: x", "main.go:7: x"), "main.go:<*>: x"),
    ],
)
def test_values_of_known_kinds(messages: tuple[str, ...], template: str) -> None:
    templates = Templates()
    templates.learn(messages)
    assert {templates.of(message) for message in messages} == {template}


def test_participles_and_methods_tell_what_happened() -> None:
    templates = Templates()
    messages = [f"VM {what} (7)" for what in ("Started", "Paused", "Resumed", "Stopped", "Deleting")]
    messages += [f'"{method} /a" 200' for method in ("GET", "POST", "PUT", "DELETE")]
    templates.learn(messages)
    assert len({templates.of(message) for message in messages}) == len(messages)


def test_templates_survive_a_restart() -> None:
    templates = Templates()
    messages = [f"login of {name} mode={mode}" for name in ("ann", "bob", "eve", "joe") for mode in "ab"]
    templates.learn(messages)
    again = Templates.restored(json.loads(json.dumps(templates.state())))
    assert len(again) == len(templates)
    assert [again.of(message) for message in messages] == [templates.of(message) for message in messages]
    again.learn(["login of kim mode=c", "login of kim mode=d"])
    assert again.of("login of kim mode=a") == "login of <*> mode=<*>"


def test_long_lines_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.logs.files.LONGEST_LINE", 16)
    file = tmp_path / "a.log"
    file.write_text("INFO:a:" + "x" * 40 + "\nINFO:a:b\r\nINFO:a:c")
    messages = [record.message for record in read_records(str(file))]
    assert "".join(messages[:-2]) == "x" * 40
    assert messages[-2:] == ["b", "c"]


def test_parse_prints_an_object_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.log"
    file.write_text(
        "2024-05-01 10:00:00,1 - app - INFO - user 1\r\n\n2024-05-01 10:00:01,1 - app - INFO - user 2\n"
    )
    assert main(["logs", "parse", str(file), "-o", "jsonl"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert list(first) == ["time", "level", "service", "message", "template", "fields", "format"]
    assert (first["template"], second["message"]) == ("user <*>", "user 2")


def test_detect_names_the_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.log"
    file.write_text("WARNING:root:a\n" * 3 + "???\n")
    assert main(["logs", "detect", str(file), "-o", "jsonl"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["format"], row["lines"], row["unreadable"]) == ("python", 4, 1)


@pytest.mark.parametrize("command", ["detect", "parse"])
@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (None, 5, "No such file"),
        (b"", 1, "is empty"),
        (b"a\0b", 1, "is binary"),
        (b"???\nwhat\nWARNING:root:a\n", 1, "2 of 3 lines are unreadable, the first: ???"),
    ],
)
def test_files_that_cannot_be_read(
    command: str,
    content: bytes | None,
    code: int,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "a.log"
    if content is not None:
        file.write_bytes(content)
    assert main(["logs", command, str(file)]) == code
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("packed", [gzip.compress, bz2.compress, lzma.compress, lambda raw: raw])
def test_packed_files(packed: Callable[[bytes], bytes], tmp_path: Path) -> None:
    file = tmp_path / "a.log.1"
    file.write_bytes(packed(b"INFO:a:b\n" * 3))
    assert [record.message for record in read_records(str(file))] == ["b", "b", "b"]
    file.write_bytes(packed(b"INFO:a:b\n" * 3000)[:-9])
    if file.read_bytes()[:1] != b"I":
        with pytest.raises(NotALogError, match="cannot be unpacked"):
            list(read_records(str(file)))


def test_utf_16_and_the_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes("INFO:a:\u00fcber\r\nINFO:a:b".encode("utf-16"))
    assert [record.message for record in read_records(str(file))] == ["\u00fcber", "b"]
    command = [sys.executable, "-m", "barnabas", "logs", "parse", "-"]
    printed = subprocess.run(command, input=b"INFO:a:b\n", check=True, capture_output=True).stdout
    assert json.loads(printed)["message"] == "b"
