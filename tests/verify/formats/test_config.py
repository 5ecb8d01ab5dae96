"""Configuration against Apache Kafka's own classes: every recorded answer is asked for again, and many more."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.config import ConfigError, Mode
from barnabas.config.scopes import TABLES
from barnabas.config.values.properties import PropertiesError, dumps, loads
from barnabas.config.values.values import format_value

PROBE = Path(__file__).parents[1] / "java" / "ConfigProbe.java"
DATA = Path(__file__).parents[2] / "data" / "config"
BY_SCOPE = {table.scope: table for table in TABLES}
# Java 17 says these with the bare words of a failed number; ours name the entry and the form.
BARE_JAVA = ("For input string", "port out of range")
FILES = 3000

Ask = Callable[[str, list[dict[str, Any]]], list[dict[str, Any]]]


def recorded(name: str) -> Any:
    return json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))


@pytest.fixture
def ask(run_java: Callable[..., str], tmp_path: Path) -> Ask:
    """Put questions to Apache Kafka; each answer holds `ok` or `error`."""

    def put(version: str, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        asked, answered = tmp_path / "asked.json", tmp_path / "answered.json"
        asked.write_text(json.dumps(questions), "utf-8")
        run_java(version, PROBE, str(asked), str(answered))
        answers: list[dict[str, Any]] = json.loads(answered.read_text("utf-8"))
        assert len(answers) == len(questions)
        return answers

    return put


@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.value)
def test_tables(mode: Mode, ask: Ask) -> None:
    # M-J1
    scopes = [scope for scope in BY_SCOPE if scope in recorded("options")[mode.value]]
    for scope, answer in zip(
        scopes, ask(mode.value, [{"ask": "options", "scope": it} for it in scopes]), strict=True
    ):
        ours = {
            option.name: [
                option.type,
                None if option.required else option.default,
                option.valid,
                option.importance,
                option.required,
                option.internal,
            ]
            for option in BY_SCOPE[scope].options(mode).values()
        }
        assert ours == answer["ok"], scope


@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.value)
def test_every_option_reads_every_text_alike(mode: Mode, ask: Ask) -> None:
    # M-J1: each text of the recorded set for each option of every scope.
    texts = sorted({text for _, _, _, text, _, _ in recorded("values")})
    questions = [
        {"ask": "value", "scope": table.scope, "name": option.name, "value": text}
        for table in TABLES
        if table.scope in recorded("options")[mode.value]
        for option in table.options(mode).values()
        if option.type != "CLASS"
        for text in texts
    ]
    for question, answer in zip(questions, ask(mode.value, questions), strict=True):
        if is_said_otherwise(mode, question["name"], answer):
            continue
        table, name = BY_SCOPE[question["scope"]], question["name"]
        option = table.option(name, mode)
        assert option is not None
        try:
            got = {"ok": format_value(option, table.parse_one(name, question["value"], mode))}
        except ConfigError as refusal:
            got = {"error": refusal.message}
        assert got == answer, question


def is_said_otherwise(mode: Mode, name: str, answer: dict[str, Any]) -> bool:
    if answer.get("error", "").startswith(BARE_JAVA):
        return True
    # 3.9.1 takes any characters for a quorum's host names; ours are as strict as 4.1.0's in both modes.
    return mode is Mode.ZOOKEEPER and name.startswith("controller.quorum.") and "ok" in answer


@pytest.mark.parametrize("version", ["4.1.0", "3.9.1"])
def test_recorded_answers_of_nodes_still_hold(version: str, ask: Ask) -> None:
    # M-C1
    cases = [case for case in recorded("rules")["nodes"] if case["version"] == version]
    answers = ask(version, [{"ask": "broker", "given": case["given"], "show": []} for case in cases])
    for case, answer in zip(cases, answers, strict=True):
        error = answer.get("error")
        assert (error and error.removeprefix("requirement failed: ")) == case["kafka"], case["given"]


def test_recorded_answers_of_clients_still_hold(ask: Ask) -> None:
    cases = recorded("rules")["clients"]
    answers = ask("4.1.0", [{"ask": case["scope"], "given": case["given"]} for case in cases])
    for case, answer in zip(cases, answers, strict=True):
        assert answer.get("error") == case["kafka"], case["given"]


def test_random_properties_files_are_read_alike(ask: Ask) -> None:
    rng = random.Random(20)
    files = [bytes(rng.choices(b"ab= :\\\\\\\n\r\t\f#!u0041\xe9", k=rng.randrange(30))) for _ in range(FILES)]
    answers = ask("4.1.0", [{"ask": "load", "bytes": base64.b64encode(data).decode()} for data in files])
    for data, answer in zip(files, answers, strict=True):
        try:
            assert {"ok": loads(data)} == answer, data
        except PropertiesError:
            assert "Malformed" in answer["error"], data


def test_random_properties_files_are_written_alike(ask: Ask) -> None:
    rng = random.Random(21)

    def words() -> str:
        return "".join(rng.choices("ab =:#!\\\n\r\t\f\x00\x7fé€😀\xff", k=rng.randrange(8)))

    cases = [(words(), words(), rng.choice([None, words()])) for _ in range(FILES // 5)]
    questions = [{"ask": "store", "key": key, "value": value, "comment": note} for key, value, note in cases]
    for (key, value, note), answer in zip(cases, ask("4.1.0", questions), strict=True):
        lines = base64.b64decode(answer["ok"]).splitlines(keepends=True)
        date = next(line for line in lines if line.startswith(b"#") and b" UTC " in line)
        lines.remove(date)
        assert dumps({key: value}, note) == b"".join(lines), (key, value, note)
