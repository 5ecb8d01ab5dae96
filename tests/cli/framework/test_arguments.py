"""Parsing of command lines."""

from __future__ import annotations

import pytest

from barnabas.cli.framework.arguments import ArgumentParser, did_you_mean
from barnabas.cli.framework.exits import Exit, HelpShownError, UsageError


def make() -> ArgumentParser:
    parser = ArgumentParser("tool", "does things")
    parser.add_argument("--files")
    parser.add_argument("--config", "-c")
    parser.add_argument("--max-bytes", type=int)
    return parser


def test_a_long_flag_may_have_one_dash() -> None:
    parsed = make().parse(["-files", "a", "-config=b"])
    assert (parsed.files, parsed.config) == ("a", "b")


def test_a_short_flag_stays_short() -> None:
    assert make().parse(["-c", "b"]).config == "b"
    assert make().parse(["-cb"]).config == "b"


def test_flags_are_not_abbreviated() -> None:
    with pytest.raises(UsageError, match=r"unknown option --max \(did you mean"):
        make().parse(["--max", "3"])


def test_an_unknown_flag_suggests_the_closest_match() -> None:
    with pytest.raises(
        UsageError, match=r"^tool: unknown option --file \(did you mean --files\?\); see tool --help$"
    ):
        make().parse(["--file=x"])


def test_an_argument_too_many_is_refused() -> None:
    with pytest.raises(UsageError, match="unexpected argument 'extra'"):
        make().parse(["extra"])


def test_a_word_for_a_flag_suggests_the_flag() -> None:
    """As in `topics list`."""
    parser = ArgumentParser("barnabas topics", "")
    parser.add_argument("--list", action="store_true")
    with pytest.raises(UsageError, match=r"unexpected argument 'list' \(did you mean --list\?\)"):
        parser.parse(["list"])


def test_letters_in_another_order_are_the_likeliest_slip() -> None:
    assert did_you_mean("--form", ["--format", "--from"]) == " (did you mean --from?)"
    assert did_you_mean("--formt", ["--format", "--from"]) == " (did you mean --format?)"


def test_a_wrong_value_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match="argument --max-bytes: invalid int value: 'x'") as refused:
        make().parse(["--max-bytes", "x"])
    assert refused.value.code is Exit.USAGE
    assert "\n" not in str(refused.value)


def test_arguments_after_two_dashes_are_left_alone() -> None:
    parser = ArgumentParser("tool", "does things")
    parser.add_argument("--files")
    parser.add_argument("rest", nargs="*")
    assert parser.parse(["--", "-files"]).rest == ["-files"]


def test_help_is_printed_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HelpShownError):
        make().parse(["-help"])
    assert "--files" in capsys.readouterr().out
