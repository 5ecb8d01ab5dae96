"""How the tests of this package call commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from barnabas.cli.main import main


@dataclass(frozen=True)
class CommandResult:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str


Call = Callable[..., CommandResult]


@pytest.fixture
def barnabas(capsys: pytest.CaptureFixture[str]) -> Call:
    """`barnabas("storage", "info", …)`: run a command in this process."""

    def call(*arguments: str) -> CommandResult:
        code = main(arguments)
        captured = capsys.readouterr()
        return CommandResult(code, captured.out, captured.err)

    return call
