"""The file with formats, services, owners and alert rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.spark.logs.alerts import DEFAULT_RULES
from barnabas.spark.logs.config import Config, read_config
from barnabas.spark.pipeline import PipelineError
from barnabas.testing.logs.formats import CONFIG

EVERYTHING = """
[formats]
ours = '(?P<level>LEVEL)!(?P<message>.*)'
[services]
"/var/log/nginx/*" = "web"
[owners]
web = "ann"
[[alerts]]
kind = "rate"
raise = 0.5
[[alerts]]
name = "silent"
kind = "absence"
service = "web"
raise_after = 3
[[alerts]]
kind = "burst"
"""


def written(folder: Path, text: str) -> str:
    path = folder / "logs.toml"
    path.write_text(text, "utf-8")
    return str(path)


def test_everything(tmp_path: Path) -> None:
    config = read_config(written(tmp_path, EVERYTHING))
    assert [form.name for form in config.known().formats] == ["ours"]
    assert (config.services, config.owners) == ((("/var/log/nginx/*", "web"),), (("web", "ann"),))
    rate, silent, burst = config.rules
    assert (rate.name, rate.bad_rate, rate.good_rate, rate.least_requests) == ("rate", 0.5, 0.25, 20)
    assert (silent.name, silent.kind, silent.service, silent.bad_windows) == ("silent", "absence", "web", 3)
    assert (burst.of, burst.bad_rate, burst.good_rate, burst.bad_windows, burst.least_requests) == (
        "lines", 5.0, 2.5, 1, 20,
    )  # fmt: skip


def test_nothing_given() -> None:
    assert read_config("") == Config()
    assert Config().rules == DEFAULT_RULES


def test_the_layout_of_the_generator_is_one_of_ones_own(tmp_path: Path) -> None:
    (form,) = read_config(written(tmp_path, CONFIG)).known().formats
    assert form.pattern.fullmatch("[2026-01-01T10:00:00.000Z] INFO  shop(1) request/a1 200 12 - GET /")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[format]\n", "there is no such key (did you mean formats?)"),
        ("[formats]\na = '('", "the format a: "),
        (
            "[formats]\na = {function = 'x'}",
            "formats.a.function: 'x' is neither a file and name nor module:name",
        ),
        ("[formats]\na = {function = 'gone.py:x'}", "gone.py: No such file"),
        ("[formats]\na = {function = 'os.path:gone'}", "the format a: os.path:gone: AttributeError"),
        ("[formats]\na = {function = 'os.path:sep'}", "the format a: os.path:sep is no function"),
        ("[fields]\nmesage = 'x'", "there is no such key (did you mean message?)"),
        ("[sources]\n'*' = 'odd'", "sources.*: there is no format odd"),
        ("[formats]\na = '(x)'", "every group needs a name"),
        (
            '[[alerts]]\nkind = "odd"',
            "alerts[0].kind: 'odd' is none of rate, count, absence, new-template, burst",
        ),
        ('[[alerts]]\nkind = "rate"', "alerts[0].raise: it is missing"),
        ('[[alerts]]\nkind = "absence"\n[[alerts]]\nkind = "absence"', "two rules have the same name"),
        ("alerts = 1", "write [[alerts]]"),
        ("x", "logs.toml"),
    ],
)
def test_errors_name_the_file_and_the_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PipelineError) as failure:
        read_config(written(tmp_path, text))
    assert said in str(failure.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(PipelineError, match="cannot be read"):
        read_config("/nowhere/logs.toml")
